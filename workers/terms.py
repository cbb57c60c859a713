"""On which terms a host is borrowed, as its inventory says now."""

from __future__ import annotations

import logging

from ddqueue import bootstrap, settings
from ddqueue.domain.borrowing import Borrow
from ddqueue.errors import DdqueueError

log = logging.getLogger(__name__)


class CurrentTerms:
    """Called before each attempt and while the worker idles, so that the file is read only when it has changed.

    Threads may share it: each gets an answer that was right a moment ago.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._seen: object = None
        self._terms: Borrow | None = None
        self._said = ""

    def __call__(self) -> Borrow | None:
        """Never raises: while the file cannot be used the last terms hold, and attempts say what is wrong with it."""
        try:
            status = settings.inventory_path().stat()
            seen = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            if seen != self._seen:
                self._seen = seen
                self._terms = bootstrap.borrow_terms(self._host)
        except (DdqueueError, OSError) as error:
            if str(error) != self._said:
                self._said = str(error)
                log.warning("the terms of %s stay as they were: %s", self._host, error)
        return self._terms
