"""One try to give a borrowed box back: own the host, run the command, and tell the database."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial

from ddqueue.domain.failures import AttemptFailure
from ddqueue.errors import DdqueueError
from ddqueue.ports import AttemptStore, Ownership
from ddqueue.services.borrowing import Borrowing

log = logging.getLogger(__name__)


class GaveBack(IntEnum):
    """What became of the try; the exit code of its process."""

    DONE = 0
    """Production has the box, or had it all the time."""
    FAILED = 1
    BUSY = 75
    """An attempt owns the host; it may be one whose worker died, and which is just ending."""


@dataclass(frozen=True)
class GiveBack:
    """Gives one host back. The database is not needed for it, and comes last."""

    host: str
    ownership: Ownership
    borrowing: Borrowing
    open_store: Callable[[], AttemptStore]

    def run(self) -> GaveBack:
        """Owning the host first ends what a dead attempt left on the GPUs, and keeps any other from starting."""
        try:
            with self.ownership.own(self.host) as lock:
                if lock is None:
                    return GaveBack.BUSY
                if self.borrowing.give_back():
                    self._tell(self._recover)
                return GaveBack.DONE
        except AttemptFailure as fault:
            log.error("%s", fault)
            self._tell(partial(self._quarantine, fault))
            return GaveBack.FAILED

    def _recover(self, store: AttemptStore) -> None:
        """What a dead attempt left: for hours, perhaps, no other attempt comes here to see to it."""
        store.deliver_left_over(self.host)
        for requeued in store.requeue_dead(self.host, "its attempt died, and the host was given back"):
            log.warning("job %d goes back to the queue: its attempt died", requeued)

    def _quarantine(self, fault: AttemptFailure, store: AttemptStore) -> None:
        store.quarantine(self.host, fault.failure, fault.evidence)

    def _tell(self, what: Callable[[AttemptStore], None]) -> None:
        try:
            what(self.open_store())
        except DdqueueError as error:
            log.warning("the database was not told: %s", error)
