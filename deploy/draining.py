"""Keeps the queue from giving a host work while its worker is exchanged, and lets a running job end first."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from ddqueue.errors import NotReachable
from ddqueue.storage.deploying import Hold

_HOLD_S = 120.0
"""A hold ends by itself so long after its deployment has died."""
_RENEW_S = 20.0
_LOOK_S = 1.0
_TELL_S = 60.0


class Queue(Protocol):
    """PostgresDeploying."""

    def hold(self, host: str, reason: str, for_s: float) -> Hold: ...

    def let_go(self, host: str, reason: str) -> bool: ...

    def running_job(self, host: str) -> int | None: ...


class Drained:
    """While it is entered, the host starts no job. A hold of a person's stays as it is, then and afterwards."""

    def __init__(self, queue: Queue, host: str, reason: str) -> None:
        self._queue = queue
        self._host = host
        self._reason = reason
        self._over = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name=f"hold {host}", daemon=True)

    def __enter__(self) -> Drained:
        self._queue.hold(self._host, self._reason, _HOLD_S)
        self._renewing.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._renewing.join()
        # If the database is away, the hold ends by itself.
        with contextlib.suppress(NotReachable):
            self._queue.let_go(self._host, self._reason)

    def wait(self, tell: Callable[[str], None]) -> int | None:
        """Returns when nothing runs there; the id of the last job that was waited for, None when none ran."""
        waited_for = None
        told_s = 0.0
        while (job := self._queue.running_job(self._host)) is not None:
            if job != waited_for or told_s >= _TELL_S:
                tell(f"waits for job {job} to end; --now would stop it")
                told_s = 0.0
            waited_for = job
            told_s += _LOOK_S
            self._over.wait(_LOOK_S)
        return waited_for

    def _renew(self) -> None:
        while not self._over.wait(_RENEW_S):
            try:
                # A person's hold may have ended meanwhile, and ours begins then.
                self._queue.hold(self._host, self._reason, _HOLD_S)
            except NotReachable:
                continue
