"""The dispatcher: one wake-up for each idle host that has a job, as soon as something changed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from ddqueue.errors import NotReachable
from ddqueue.ports import DispatchStore, Wakeups

log = logging.getLogger(__name__)

_POLL_S = 1.0
_PAUSE_S = 0.5


@dataclass(frozen=True)
class Dispatch:
    """Holds no state of its own: everything it knows it reads anew, so it may die at any moment."""

    store: DispatchStore
    wakeups: Wakeups
    wake_again_after_s: float
    should_end: Callable[[], bool]

    def run(self) -> None:
        """Lead, and dispatch until `should_end`; survives both servers being away."""
        while not self.should_end():
            try:
                with self.store.lead():
                    log.info("leading")
                    while not self.should_end():
                        self.once()
                        self.store.wait(_POLL_S)
            except NotReachable as away:
                log.warning("%s", away)
                time.sleep(_PAUSE_S)

    def once(self) -> int:
        """Wake every idle host that has a job; returns how many were woken."""
        woken = 0
        for job in self.store.next_jobs(self.wake_again_after_s):
            try:
                self.wakeups.wake(job)
                woken += 1
                log.info("woke %s for job %d (%s)", job.host, job.job_id, job.cell_label)
            except NotReachable as away:
                # The mark in the database fades by itself; the host is woken again.
                log.warning("could not wake %s: %s", job.host, away)
        return woken
