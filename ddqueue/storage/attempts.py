"""The fenced side of the queue: claiming, the lease, and finishing.

What an attempt records in between is in recording.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, RowMapping, select
from sqlalchemy.exc import IntegrityError

from ddqueue.domain.coding import Answer, Scored, Suite
from ddqueue.domain.configuration import Cell, Parallelism
from ddqueue.domain.dominance import Rival
from ddqueue.domain.failures import Failure
from ddqueue.domain.measurement import Measurement
from ddqueue.domain.queueing import CarriedRepeat, Claim, Lease, PhaseRecord, Runner
from ddqueue.domain.retry import LOST_LIMIT, Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.domain.sweep import Measure
from ddqueue.errors import StaleFence, UsageError
from ddqueue.ports import ConfigurationCheck, SameServer
from ddqueue.storage import recording, tables
from ddqueue.storage.carrying import carry_over
from ddqueue.storage.engine import transaction
from ddqueue.storage.entries import (
    Entry,
    EntryKind,
    Term,
    answers_entry,
    configuration_entry,
    finish_entry,
    finish_of,
    measurement_entry,
    phase_entry,
    provenance_entry,
    scores_entry,
)
from ddqueue.storage.events import EventKind, announce, write_event
from ddqueue.storage.pruning import prune_later_visits, rivals
from ddqueue.storage.quarantine import apply_breaker, quarantine
from ddqueue.storage.statements import statement
from ddqueue.storage.storable import Cleaner

_CAME_TOO_LATE = frozenset({"jobs_one_running_per_host", "attempts_job_id_number_key"})
"""What a claim breaks when another one was there first: on its host, or on its job, whose attempt has ended again."""

_NOBODY = Runner(0, 0, "nobody")


class PostgresAttemptStore:
    """Implements ports.AttemptStore. Every method raises NotReachable when Postgres does not answer; each may then be
    called again with the same arguments, even if the first call had been stored after all."""

    def __init__(self, sql_engine: Engine) -> None:
        self._sql_engine = sql_engine

    def deliver_left_over(self, host: str) -> int:
        """Nothing: whatever is written here is in Postgres at once."""
        return 0

    def requeue_dead(self, host: str, why: str) -> list[int]:
        """End every running job of `host` as lost; only the holder of the host's kernel lock may call it.

        Each goes back to the queue, is cancelled if that was asked for, or has failed when lost LOST_LIMIT times.
        Returns the job ids.
        """
        with transaction(self._sql_engine) as connection:
            found = {"host": host, "why": Cleaner().text(why, "why"), "lost_limit": LOST_LIMIT}
            rows = connection.execute(statement("requeue_dead"), found).all()
            for row in rows:
                write_event(
                    connection,
                    EventKind.LOST,
                    {"why": why, "state": row.state},
                    sweep_id=row.sweep_id,
                    job_id=row.job_id,
                    attempt_id=row.attempt_id,
                    host=host,
                )
            if rows:
                announce(connection)
        return [row.job_id for row in rows]

    def claim(self, host: str, job_id: int, runner: Runner, lease_ttl_s: float) -> Claim | None:
        """Take the job if it may run now, else None: it is not queued or must wait, its sweep is paused, the host is
        quarantined or held, or another job runs there."""
        try:
            with transaction(self._sql_engine) as connection:
                row = _claim(connection, host, job_id, runner, lease_ttl_s)
                # Read before the commit: what this version cannot read stays queued.
                return None if row is None else _claim_of(row, host, job_id)
        except IntegrityError as error:
            if _broken_constraint(error) in _CAME_TOO_LATE:
                return None
            raise

    def could_claim(self, host: str, job_id: int) -> bool:
        """What `claim` would answer just now: tried, and undone, so that the two never follow different rules."""
        try:
            with transaction(self._sql_engine) as connection, connection.begin_nested() as tried:
                row = _claim(connection, host, job_id, _NOBODY, 0.0)
                tried.rollback()
        except IntegrityError as error:
            if _broken_constraint(error) in _CAME_TOO_LATE:
                return False
            raise
        return row is not None

    def heartbeat(self, claim: Claim, lease_ttl_s: float, activity: str = "") -> Lease:
        """Prolong the lease by `lease_ttl_s` from now, by the database's clock, and say what the attempt does."""
        term = {
            **recording.parameters(Term.of(claim)),
            "lease_ttl_s": lease_ttl_s,
            "activity": Cleaner().text(activity, "activity") or None,
        }
        with transaction(self._sql_engine) as connection:
            row = connection.execute(statement("heartbeat"), term).one_or_none()
        if row is None:
            return Lease.LOST
        if row.cancel:
            return Lease.CANCEL
        return Lease.YIELD if row.yields else Lease.HELD

    def write(self, term: Term, entry: Entry) -> None:
        """Store what an attempt yields; a finish too. Raises StaleFence."""
        if entry.kind is EntryKind.FINISH:
            self._finish(term, entry)
            return
        with transaction(self._sql_engine) as connection:
            recording.write(connection, term, entry)

    def record_phase(self, claim: Claim, phase: PhaseRecord) -> None:
        """Raises StaleFence."""
        self.write(Term.of(claim), phase_entry(phase))

    def record_provenance(self, claim: Claim, values: Mapping[str, Any]) -> None:
        """Raises StaleFence."""
        self.write(Term.of(claim), provenance_entry(values))

    def record_configuration(
        self,
        claim: Claim,
        requested: Mapping[str, Any],
        effective: Mapping[str, Any],
        difference: Mapping[str, Any],
        effective_hash: str = "",
    ) -> None:
        """Raises StaleFence."""
        check = ConfigurationCheck(requested, effective, difference, effective_hash)
        self.write(Term.of(claim), configuration_entry(check))

    def same_server(self, claim: Claim, effective_hash: str) -> SameServer | None:
        """A job of another cell of the sweep, on this host and parallelism, accepted on an equal server; the first."""
        wanted = {"job_id": claim.job_id, "effective_hash": effective_hash}
        with transaction(self._sql_engine) as connection:
            row = connection.execute(statement("same_server"), wanted).first()
        return None if row is None else SameServer(row.job_id, row.label, row.requested or {})

    def carry_over(self, claim: Claim, effective_hash: str) -> list[CarriedRepeat]:
        """Raises StaleFence."""
        with transaction(self._sql_engine) as connection:
            return carry_over(connection, Term.of(claim), effective_hash)

    def rivals(self, claim: Claim) -> list[Rival]:
        """What `claim` may be given up for; nothing where it must be measured whole (rivals.sql says when)."""
        with transaction(self._sql_engine) as connection:
            return rivals(connection, claim.job_id)

    def record_measurement(self, claim: Claim, measurement: Measurement) -> None:
        """Raises StaleFence."""
        self.write(Term.of(claim), measurement_entry(measurement))

    def record_answers(self, claim: Claim, suite: Suite, answers: Sequence[Answer]) -> None:
        """Raises StaleFence."""
        self.write(Term.of(claim), answers_entry(suite, answers))

    def record_scores(self, claim: Claim, scorer: str, scored: Sequence[Scored]) -> None:
        """Raises StaleFence."""
        self.write(Term.of(claim), scores_entry(scorer, scored))

    def finish(
        self,
        claim: Claim,
        outcome: AttemptOutcome,
        decision: Decision,
        failure: Failure | None = None,
        evidence: str | None = None,
    ) -> None:
        """End the attempt, move the job as decided and quarantine the host if decided, in one transaction.

        A failure that is the third suspicious one in a row on the host (domain.breaker) quarantines it too.

        A job decided back into the queue is cancelled instead when a person has asked for that meanwhile.

        Raises:
            StaleFence: another attempt owns the job; nothing was written.
            ValueError: success and the decision contradict each other, or a failed job lacks its class.
        """
        _check_consistent(outcome, decision, failure)
        self.write(Term.of(claim), finish_entry(outcome, decision, failure, evidence))

    def _finish(self, term: Term, entry: Entry) -> None:
        outcome, decision, failure, evidence = finish_of(entry)
        with transaction(self._sql_engine) as connection:
            state = _finish_job(connection, term, decision, failure, evidence)
            if state is None:
                if _already_finished(connection, term, outcome):
                    return
                raise StaleFence(recording.stale(term, "finish"))
            ended = {
                "attempt_id": term.attempt_id,
                "fence": term.fence,
                "outcome": outcome.value,
                "failure": failure.value if failure else None,
                "evidence": evidence,
            }
            connection.execute(statement("finish_attempt"), ended).one()
            detail = {"outcome": outcome, "failure": failure, "state": state, "counts": decision.counts}
            recording.write_attempt_event(connection, term, EventKind.FINISHED, detail)
            recording.note_cleaned(connection, term, entry)
            if outcome is AttemptOutcome.PRUNED:
                prune_later_visits(connection, term, evidence)
            if decision.quarantine and failure is not None:
                quarantine(connection, term.host, failure, evidence or failure.value)
            elif outcome is AttemptOutcome.FAILED:
                apply_breaker(connection, term.host)
            announce(connection)

    def quarantine(self, host: str, failure: Failure, evidence: str) -> None:
        """Take the host out of work until a person or its checks release it; a host already out keeps its reason.

        Raises:
            UsageError: the database knows no such host.
        """
        with transaction(self._sql_engine) as connection:
            known = connection.execute(select(tables.hosts.c.name).where(tables.hosts.c.name == host)).first()
            if known is None:
                raise UsageError(f"the database knows no host {host!r}; it learns of hosts when a sweep is submitted")
            quarantine(connection, host, failure, Cleaner().text(evidence, "evidence"))


def _claim(connection: Connection, host: str, job_id: int, runner: Runner, lease_ttl_s: float) -> RowMapping | None:
    wish = {
        "host": host,
        "job_id": job_id,
        "lease_ttl_s": lease_ttl_s,
        "runner_pid": runner.pid,
        "runner_start_ticks": runner.start_ticks,
        "worker": runner.worker,
    }
    return connection.execute(statement("claim_job"), wish).mappings().one_or_none()


def _claim_of(row: RowMapping, host: str, job_id: int) -> Claim:
    """What claim_job.sql gave, as the attempt takes it."""
    return Claim(
        job_id=job_id,
        attempt_id=row["attempt_id"],
        attempt_number=row["attempt_number"],
        tries_used=row["tries"],
        fence=row["fence"],
        host=host,
        sweep_id=row["sweep_id"],
        sweep=f"{row['name']}@{row['revision']}",
        cell=Cell.from_canonical(row["canonical"]),
        cell_label=row["label"],
        out_of_distribution=row["out_of_distribution"],
        parallelism=Parallelism(tp=row["tp"], ep=row["ep"], pp=row["pp"], dp=row["dp"]),
        measure=Measure.from_json(row["measure"]),
    )


def _finish_job(
    connection: Connection, term: Term, decision: Decision, failure: Failure | None, evidence: str | None
) -> str | None:
    """The job's new state, or None when the fence is stale."""
    moved = {
        **recording.parameters(term),
        "state": decision.state.value,
        "counts": decision.counts,
        "delay_s": decision.delay_s,
        "failure": failure.value if failure else None,
        "evidence": evidence,
    }
    state: str | None = connection.execute(statement("finish_job"), moved).scalar_one_or_none()
    return state


def _already_finished(connection: Connection, term: Term, outcome: AttemptOutcome) -> bool:
    """Whether this very finish was stored before: the answer to its commit was lost, and the caller asks again."""
    attempts = tables.attempts
    mine = (attempts.c.id == term.attempt_id) & (attempts.c.fence == term.fence)
    return connection.execute(select(attempts.c.outcome).where(mine)).scalar_one_or_none() == outcome.value


def _check_consistent(outcome: AttemptOutcome, decision: Decision, failure: Failure | None) -> None:
    if (outcome is AttemptOutcome.SUCCEEDED) != (decision.state is JobState.SUCCEEDED):
        raise ValueError(f"an attempt that {outcome} cannot make its job {decision.state}")
    if (outcome is AttemptOutcome.PRUNED) != (decision.state is JobState.PRUNED):
        raise ValueError(f"an attempt that was {outcome} cannot make its job {decision.state}")
    if outcome in (AttemptOutcome.SUCCEEDED, AttemptOutcome.PRUNED) and failure is not None:
        raise ValueError(f"an attempt that succeeded has no failure class, but {failure} was given")
    needs_class = outcome is AttemptOutcome.FAILED or decision.state in (JobState.FAILED, JobState.UNSUPPORTED)
    if needs_class and failure is None:
        raise ValueError(f"an attempt that {outcome} and makes its job {decision.state} needs a failure class")


def _broken_constraint(error: IntegrityError) -> str | None:
    diagnostics = getattr(error.orig, "diag", None)
    return getattr(diagnostics, "constraint_name", None)
