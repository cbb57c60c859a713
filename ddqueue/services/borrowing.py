"""Borrowing a box from production: taken once for as many attempts as follow one another, and always given back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime

from ddqueue.domain.borrowing import Borrow, CommandEnd, Loan, LoanState, RunningCommand
from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.ports import HostCommands, LoanRecord, Progress
from ddqueue.services.stopping import StopReason, StopSignal

log = logging.getLogger(__name__)

_WATCH_S = 1.0


@dataclass(frozen=True)
class Borrowing:
    """One host's loan; only for whoever holds the host's lock. `terms` are the inventory's, None where it is ours.

    Every step is noted on disk before it is done: a crash anywhere leaves a record, and a record is given back.
    """

    terms: Borrow | None
    record: LoanRecord
    commands: HostCommands
    now: Callable[[], datetime]
    """The box's own clock, with its zone."""
    progress: Progress
    tell: Callable[[Loan | None], None] = lambda _: None
    """Told, for people who watch, of a box that was taken, and with None of one that was given back; never raises."""

    def must_take(self) -> bool:
        """Whether production has to make room before a job can run."""
        loan = self.record.read()
        return self.terms is not None and not (loan is not None and loan.is_ours(self.commands.boot()))

    @contextmanager
    def taken(self, stop: StopSignal) -> Iterator[None]:
        """Take the box if it is not taken yet; it stays so after the block, for the next attempt.

        Inside, the end of the box's hours asks the attempt to stop.

        Raises:
            AttemptFailure: the box could not be taken; it has been given back, or the evidence says why not.
            AttemptStopped: somebody wants the attempt to end, or the box is outside its hours.
        """
        if self.terms is None:
            yield
            return
        if self.terms.closed(self.now()) is not None:
            stop.ask(StopReason.HOURS)
        stop.check()
        over = threading.Event()
        watch = threading.Thread(target=self._watch_hours, args=(self.terms, stop, over), name="hours", daemon=True)
        watch.start()
        try:
            if self.must_take():
                self._take(self.terms, stop)
            yield
        finally:
            over.set()
            watch.join()

    def give_back(self) -> bool:
        """Let production have the box again; False when it was not borrowed.

        The newest terms count, so that a person can mend a wrong command; without any, those under which it was taken.

        Raises:
            AttemptFailure: INFRA; the record stays, so that it is tried again.
        """
        loan = self.record.read()
        if loan is None:
            return False
        terms = self.terms or loan.terms
        if terms is None:
            raise AttemptFailure(
                Failure.INFRA,
                "the box is borrowed, and neither the inventory nor its record says how it is given back: write "
                "`borrow` for this host into the inventory",
            )
        self._end_left(loan)
        giving = Loan(terms, LoanState.GIVING_BACK, loan.since, self.commands.boot())
        self._try_to_note(giving)
        self.progress.tell("give back", " ".join(terms.give_back))
        end = self._run(
            terms.give_back,
            terms.limit_s,
            lambda: None,
            lambda command: self._try_to_note(replace(giving, command=command)),
        )
        if end.problem:
            self.tell(giving)
            raise AttemptFailure(Failure.INFRA, f"the box is borrowed and could not be given back: {end.evidence}")
        try:
            self.record.remove()
        except OSError as error:
            raise AttemptFailure(Failure.INFRA, f"the box was given back, but its record stays: {error}") from error
        log.info("given back, after it was taken at %s", f"{loan.since:%Y-%m-%d %H:%M:%S}")
        self.tell(None)
        return True

    def _take(self, terms: Borrow, stop: StopSignal) -> None:
        earlier = self.record.read()
        if earlier is not None:
            self._end_left(earlier)
        since = self.now() if earlier is None else earlier.since
        taking = Loan(terms, LoanState.TAKING, since, self.commands.boot())
        self.progress.tell("take", " ".join(terms.take))
        try:
            self.record.write(taking)
            end = self._run(
                terms.take,
                terms.limit_s,
                stop.check,
                lambda command: self.record.write(replace(taking, command=command)),
            )
        except OSError as error:
            raise self._without_the_box(f"the box was not taken, because that cannot be noted: {error}") from error
        if end.problem:
            raise self._without_the_box(f"the box could not be taken from production: {end.evidence}")
        # Without this note the next attempt takes it once more, which does no harm.
        taken = replace(taking, state=LoanState.TAKEN)
        self._try_to_note(taken)
        log.info("taken from production")
        self.tell(taken)

    def _without_the_box(self, why: str) -> AttemptFailure:
        """Half taken is not left so: production may have stopped all the same."""
        try:
            given_back = self.give_back()
        except AttemptFailure as fault:
            return AttemptFailure(Failure.GPU_BUSY, f"{why}; {fault.evidence}")
        return AttemptFailure(Failure.GPU_BUSY, f"{why}; it has been given back" if given_back else why)

    def _run(
        self,
        command: tuple[str, ...],
        limit_s: float,
        should_stop: Callable[[], None],
        started: Callable[[RunningCommand], None],
    ) -> CommandEnd:
        end = self.commands.run(command, limit_s, should_stop, started)
        log.log(logging.ERROR if end.problem else logging.INFO, "%s", end.evidence)
        return end

    def _end_left(self, loan: Loan) -> None:
        """A runner that was killed leaves its command running: a `take` that ends later would stop production in the
        middle of its day."""
        if loan.command is not None and loan.boot == self.commands.boot():
            self.commands.end(loan.command)

    def _try_to_note(self, loan: Loan) -> None:
        """An older note is good enough, and no reason not to give back."""
        with suppress(OSError):
            self.record.write(loan)

    def _watch_hours(self, terms: Borrow, stop: StopSignal, over: threading.Event) -> None:
        while not over.wait(_WATCH_S):
            if (closed := terms.closed(self.now())) is not None:
                log.info("the attempt ends: %s", closed)
                stop.ask(StopReason.HOURS)
                return
