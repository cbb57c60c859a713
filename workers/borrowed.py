"""The worker's side of a host that may be borrowed: no attempt outside its hours, and it goes back when it is idle."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from ddqueue.domain.borrowing import LIMIT_S, Borrow, Loan, LoanState, retry_delay_s
from ddqueue.ports import LoanRecord
from ddqueue.services.give_back import GaveBack
from workers.attempts import Report

log = logging.getLogger(__name__)


_POLL_S = 0.5
_GRACE_S = 120.0
"""What a give-back may take beyond its command's limit: for the lock, for left-over processes and for the database."""
_BUSY_S = 5.0
_LAST_PAUSES_S = (0.0, 3.0, 10.0)
"""Before each of the tries of a worker that is told to stop: whoever stops it does not wait for ever."""


class Attempts(Protocol):
    """What runs them: AttemptProcesses."""

    def run(self, host: str, job_id: int, tell: Callable[[str, str], None]) -> Report:
        """Run one to its end. Raises RuntimeError when it died without a report."""
        ...

    def kill(self) -> None:
        """End the one that runs."""
        ...


class BorrowedBox:
    """Lets one thing happen on the host at a time: an attempt, or giving the box back.

    It works on a host that is never borrowed too, since its inventory may change. `stop` may be called inside a signal
    handler: no lock, no logging.
    """

    def __init__(
        self,
        host: str,
        attempts: Attempts,
        terms: Callable[[], Borrow | None],
        record: LoanRecord,
        now: Callable[[], datetime],
        past_hours_s: float,
    ) -> None:
        """`terms` is asked often, and must answer whatever happens. An attempt that still runs `past_hours_s` after the
        end of the box's hours is killed."""
        self._host = host
        self._attempts = attempts
        self._past_hours_s = past_hours_s
        self._closed_since_s: float | None = None
        self._terms = terms
        self._record = record
        self._now = now
        self._one_at_a_time = threading.Lock()
        self._last_work_s = time.monotonic()
        self._failures = 0
        self._not_before_s = 0.0
        self._stopping = False
        self._kept_back = False
        self._keeper = threading.Thread(target=self._keep, name="give back", daemon=True)

    @property
    def busy(self) -> bool:
        """Whether a worker that is told to stop has still to give the box back."""
        return self._keeper.is_alive()

    @property
    def exit_code(self) -> int:
        """1 when the box could not be given back; the next worker tries again."""
        return 1 if self._kept_back else 0

    def start(self) -> None:
        """Begin to look after the box, and after one that an earlier worker left."""
        self._keeper.start()

    def stop(self) -> None:
        """Take no more work, and give the box back once the attempt has ended."""
        self._stopping = True

    def wait(self) -> int:
        """Returns the exit code, after `stop`, once the box has been given back or that has failed."""
        self._keeper.join()
        return self.exit_code

    def run(self, host: str, job_id: int, tell: Callable[[str, str], None]) -> Report:
        """Run one attempt, or say why not. Outside the box's hours it waits for them, since the dispatcher would wake
        the host again every few seconds; the job it was woken for may be another's by then, so that it is not run."""
        closed = self._closed()
        if closed is not None:
            log.info("%s takes no job: %s", host, closed)
            tell("outside hours", closed)
            while self._closed() is not None and not self._stopping:
                time.sleep(_POLL_S)
            return Report(False, closed)
        with self._one_at_a_time:
            if self._stopping:
                return Report(False, "the worker stopped before the attempt had its order")
            try:
                report = self._attempts.run(host, job_id, tell)
            except RuntimeError:
                self._last_work_s = time.monotonic()
                raise
            if report.worked:
                # An attempt that claimed nothing is no reason to keep a box from production any longer.
                self._last_work_s = time.monotonic()
            return report

    def _closed(self) -> str | None:
        terms = self._terms()
        return None if terms is None else terms.closed(self._now())

    def _keep(self) -> None:
        while not self._stopping:
            time.sleep(_POLL_S)
            try:
                self._look()
            except Exception:  # whatever it is, production may be without its box: look again
                log.exception("looking after %s", self._host)
        with self._one_at_a_time:
            self._give_back_at_last()

    def _look(self) -> None:
        if not self._one_at_a_time.acquire(blocking=False):
            self._end_what_runs_past_the_hours()
            return
        try:
            self._closed_since_s = None
            if time.monotonic() >= self._not_before_s and (why := self._why_due()) is not None:
                self._give_back(why)
        finally:
            self._one_at_a_time.release()

    def _end_what_runs_past_the_hours(self) -> None:
        """An attempt ends by itself then, but it may be frozen, or wait for a database that is away; its journal is
        delivered by whoever comes next."""
        if self._closed() is None:
            self._closed_since_s = None
        elif self._closed_since_s is None:
            self._closed_since_s = time.monotonic()
        elif time.monotonic() - self._closed_since_s > self._past_hours_s:
            log.error("%s: the attempt did not end with the hours and is killed", self._host)
            self._attempts.kill()

    def _why_due(self) -> str | None:
        loan = self._record.read()
        if loan is None:
            return None
        if loan.state is LoanState.GIVING_BACK:
            return "it has not been given back yet"
        terms = self._terms() or loan.terms
        if terms is None:
            return "nobody knows on which terms it was taken"
        return terms.why_due(self._now(), time.monotonic() - self._last_work_s)

    def _give_back_at_last(self) -> None:
        for pause_s in _LAST_PAUSES_S:
            if self._record.read() is None:
                return
            time.sleep(pause_s)
            if self._give_back("the worker stops") is GaveBack.DONE:
                return
        self._kept_back = True
        log.error(
            "%s is still borrowed: the next worker gives it back, or run there: python -m workers.give_back %s",
            *(self._host, self._host),
        )

    def _give_back(self, why: str) -> GaveBack:
        """One try; says when the next may be."""
        log.info("%s goes back to production: %s", self._host, why)
        ended = give_back_now(self._host, self._limit_s(self._record.read()))
        if ended is GaveBack.FAILED:
            self._failures += 1
            delay_s = retry_delay_s(self._failures)
            log.error("%s could not be given back, %d times so far", self._host, self._failures)
        else:
            self._failures = 0
            delay_s = _BUSY_S if ended is GaveBack.BUSY else 0.0
        self._not_before_s = time.monotonic() + delay_s
        return ended

    def _limit_s(self, loan: Loan | None) -> float:
        terms = self._terms() or (loan.terms if loan is not None else None)
        return LIMIT_S if terms is None else terms.limit_s


def give_back_if_borrowed(host: str, record: LoanRecord) -> None:
    """One try, for a worker that cannot start."""
    loan = record.read()
    if loan is not None:
        give_back_now(host, LIMIT_S if loan.terms is None else loan.terms.limit_s)


def give_back_now(host: str, limit_s: float) -> GaveBack:
    """One try, in a process of its own: the worker holds no lock. `limit_s` is what the command may take."""
    command = [sys.executable, "-m", "workers.give_back", host]
    try:
        # In a session of its own, so that it goes on when the worker is killed, or its terminal closed.
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, start_new_session=True, timeout=limit_s + _GRACE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        log.error("%s", error)
        return GaveBack.FAILED
    known = {ended.value: ended for ended in GaveBack}
    return known.get(done.returncode, GaveBack.FAILED)
