"""The attempt's store that measures on while Postgres is away: the journal first, then a thread that delivers."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ddqueue.domain.coding import Answer, Scored, Suite
from ddqueue.domain.dominance import Rival
from ddqueue.domain.failures import Failure
from ddqueue.domain.measurement import Measurement
from ddqueue.domain.queueing import CarriedRepeat, Claim, Lease, PhaseRecord, Runner
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome
from ddqueue.errors import NotReachable, StaleFence
from ddqueue.ports import AttemptStore, ConfigurationCheck, SameServer
from ddqueue.storage import journal
from ddqueue.storage.entries import (
    Entry,
    EntryKind,
    Term,
    answers_entry,
    configuration_entry,
    finish_entry,
    measurement_entry,
    phase_entry,
    provenance_entry,
    scores_entry,
)

log = logging.getLogger(__name__)

_PAUSE_S = 0.5

Value = TypeVar("Value")


class EntryStore(AttemptStore, Protocol):
    """Where entries end up; every method may be repeated with the same arguments after a NotReachable."""

    def write(self, term: Term, entry: Entry) -> None:
        """Raises StaleFence, or NotReachable."""
        ...


class JournalledStore:
    """An AttemptStore for one attempt at a time. What is recorded is kept when the call returns, and stored when
    Postgres can be reached; `finish` returns when everything is stored.

    A StaleFence that the delivery met is raised by the next call.
    """

    def __init__(self, store: EntryStore, folder: Path, away_limit_s: float, ask_limit_s: float = 30.0) -> None:
        """`folder` is the host's. `away_limit_s` bounds the trying once work was done; `ask_limit_s` before any was,
        and for questions that the attempt can go on without."""
        self._store = store
        self._folder = folder
        self._away_limit_s = away_limit_s
        self._ask_limit_s = ask_limit_s
        self._journal: journal.Journal | None = None
        self._delivery: _Delivery | None = None

    def deliver_left_over(self, host: str) -> int:
        """Store what earlier attempts on this host left in their journals; returns how many entries were stored.

        Only for the holder of the host's lock, and before `requeue_dead`: what they wrote goes in under their own
        fence, a finish too, as long as nobody has taken the job away. What is refused is kept beside, for a person.
        Raises NotReachable.
        """
        return sum(
            patiently(partial(self._deliver_file, path), self._ask_limit_s) for path in journal.left_in(self._folder)
        )

    def requeue_dead(self, host: str, why: str) -> list[int]:
        return patiently(lambda: self._store.requeue_dead(host, why), self._ask_limit_s)

    def claim(self, host: str, job_id: int, runner: Runner, lease_ttl_s: float) -> Claim | None:
        # A claim whose answer was lost leaves a running row that this attempt does not know of; the host's next
        # attempt finds it dead and requeues it. So a claim is not tried again.
        claim = self._store.claim(host, job_id, runner, lease_ttl_s)
        if claim is not None:
            term = Term.of(claim)
            self._journal = _open_journal(self._folder, term)
            self._delivery = _Delivery(self._store, term)
        return claim

    def could_claim(self, host: str, job_id: int) -> bool:
        return patiently(lambda: self._store.could_claim(host, job_id), self._ask_limit_s)

    def heartbeat(self, claim: Claim, lease_ttl_s: float, activity: str = "") -> Lease:
        return self._store.heartbeat(claim, lease_ttl_s, activity)

    def record_phase(self, claim: Claim, phase: PhaseRecord) -> None:
        self._keep(phase_entry(phase))

    def record_provenance(self, claim: Claim, values: Mapping[str, Any]) -> None:
        self._keep(provenance_entry(values))

    def record_configuration(
        self,
        claim: Claim,
        requested: Mapping[str, Any],
        effective: Mapping[str, Any],
        difference: Mapping[str, Any],
        effective_hash: str = "",
    ) -> None:
        self._keep(configuration_entry(ConfigurationCheck(requested, effective, difference, effective_hash)))

    def same_server(self, claim: Claim, effective_hash: str) -> SameServer | None:
        return patiently(lambda: self._store.same_server(claim, effective_hash), self._away_limit_s)

    def carry_over(self, claim: Claim, effective_hash: str) -> list[CarriedRepeat]:
        """Nothing where Postgres stays away: then everything is measured again, which costs time and no truth."""
        try:
            return patiently(lambda: self._store.carry_over(claim, effective_hash), self._ask_limit_s)
        except NotReachable as error:
            log.warning("what earlier attempts measured is not taken over: %s", error)
            return []

    def rivals(self, claim: Claim) -> list[Rival]:
        """Nothing where Postgres stays away: then the cell is measured whole."""
        try:
            return patiently(lambda: self._store.rivals(claim), self._ask_limit_s)
        except NotReachable as error:
            log.warning("the cell is not given up, whatever others reach: %s", error)
            return []

    def record_measurement(self, claim: Claim, measurement: Measurement) -> None:
        self._keep(measurement_entry(measurement))

    def record_answers(self, claim: Claim, suite: Suite, answers: Sequence[Answer]) -> None:
        self._keep(answers_entry(suite, answers))

    def record_scores(self, claim: Claim, scorer: str, scored: Sequence[Scored]) -> None:
        self._keep(scores_entry(scorer, scored))

    def finish(
        self,
        claim: Claim,
        outcome: AttemptOutcome,
        decision: Decision,
        failure: Failure | None = None,
        evidence: str | None = None,
    ) -> None:
        """Returns when everything is stored. Raises NotReachable past the limit: the journal then holds the finish
        too, and the host's next attempt delivers it."""
        delivery = self._keep(finish_entry(outcome, decision, failure, evidence))
        delivery.wait(self._away_limit_s)
        delivery.end()
        if self._journal is not None:
            self._journal.remove()
        self._journal = self._delivery = None

    def quarantine(self, host: str, failure: Failure, evidence: str) -> None:
        patiently(lambda: self._store.quarantine(host, failure, evidence), self._away_limit_s)

    def _keep(self, entry: Entry) -> _Delivery:
        delivery = self._delivery
        if delivery is None:
            raise RuntimeError("nothing was claimed")
        if self._journal is not None:
            try:
                self._journal.append(entry)
            except OSError as error:
                # Then Postgres must take it before the attempt goes on: one of the two always has it.
                log.warning("the journal cannot take a %s: %s", entry.what, error)
                delivery.add(entry)
                delivery.wait(self._away_limit_s)
                return delivery
        delivery.add(entry)
        if self._journal is None:
            delivery.wait(self._away_limit_s)
        return delivery

    def _deliver_file(self, path: Path) -> int:
        found = journal.read(path)
        if found is None:
            path.unlink()
            return 0
        term, entries = found
        stored = 0
        try:
            for entry in entries:
                self._store.write(term, entry)
                stored += 1
        except StaleFence as refused:
            if self._ended_with(term, entries):
                path.unlink()
                return stored
            kept = path.with_suffix(journal.REFUSED_SUFFIX)
            path.rename(kept)
            log.warning("%d entries of attempt %d are kept in %s: %s", len(entries), term.attempt_id, kept, refused)
            return stored
        path.unlink()
        log.info("stored %d entries that attempt %d had left", stored, term.attempt_id)
        return stored

    def _ended_with(self, term: Term, entries: Sequence[Entry]) -> bool:
        """Whether the finish that ends the journal is stored, and so all before it: its writer died before it could
        remove the file."""
        if not entries or entries[-1].kind is not EntryKind.FINISH:
            return False
        try:
            self._store.write(term, entries[-1])
        except StaleFence:
            return False
        return True


class _Delivery:
    """A thread that stores entries in order, as soon as Postgres lets it."""

    def __init__(self, store: EntryStore, term: Term) -> None:
        self._store = store
        self._term = term
        self._waiting: deque[Entry] = deque()
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._away: NotReachable | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="delivery", daemon=True)
        self._thread.start()

    def add(self, entry: Entry) -> None:
        """Raises what the delivery of an earlier entry met, e.g. StaleFence."""
        with self._changed:
            self._raise_error()
            self._waiting.append(entry)
            self._changed.notify_all()

    def wait(self, limit_s: float) -> None:
        """Returns when everything is stored. Raises NotReachable past the limit, and what an entry met."""
        deadline = time.monotonic() + limit_s
        with self._changed:
            while self._waiting and self._error is None:
                if time.monotonic() > deadline:
                    raise self._away or NotReachable("Postgres did not take what was measured in time")
                self._changed.wait(_PAUSE_S)
            self._raise_error()

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join(timeout=5)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._ended:
                    self._changed.wait()
                if not self._waiting:
                    return
                entry = self._waiting[0]
            try:
                self._store.write(self._term, entry)
            except NotReachable as error:
                if self._away is None:
                    log.warning("measuring goes on, the journal keeps it: %s", error)
                with self._changed:
                    self._away = error
                    self._changed.wait(_PAUSE_S)
                    if self._ended:
                        return
                continue
            except BaseException as error:
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return
            with self._changed:
                self._away = None
                self._waiting.popleft()
                self._changed.notify_all()


def patiently(action: Callable[[], Value], limit_s: float) -> Value:
    """Try again while Postgres cannot be reached. Raises NotReachable past the limit."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return action()
        except NotReachable:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)


def _open_journal(folder: Path, term: Term) -> journal.Journal | None:
    """None where the disk will not take it: then everything goes to Postgres at once."""
    try:
        return journal.Journal(folder, term)
    except OSError as error:
        log.warning("no journal in %s: %s", folder, error)
        return None
