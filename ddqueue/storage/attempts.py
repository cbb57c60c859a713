"""The fenced side of the queue: claiming, the lease, and finishing.

What an attempt records in between is in recording.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import IntegrityError

from ddqueue.domain.configuration import Cell, Parallelism
from ddqueue.domain.failures import Failure
from ddqueue.domain.measurement import Measurement
from ddqueue.domain.queueing import Claim, Lease, PhaseRecord, Runner
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.domain.sweep import Measure
from ddqueue.errors import StaleFence, UsageError
from ddqueue.ports import ConfigurationCheck, SameServer
from ddqueue.storage import recording, tables
from ddqueue.storage.engine import transaction
from ddqueue.storage.events import EventKind, announce, write_event
from ddqueue.storage.quarantine import apply_breaker, quarantine
from ddqueue.storage.statements import statement
from ddqueue.storage.storable import Cleaner

_ONE_RUNNING_PER_HOST = "jobs_one_running_per_host"


class PostgresAttemptStore:
    """Implements ports.AttemptStore. Every method raises NotReachable when Postgres does not answer; each may then be
    called again with the same arguments, even if the first call had been stored after all."""

    def __init__(self, sql_engine: Engine) -> None:
        self._sql_engine = sql_engine

    def requeue_dead(self, host: str, why: str) -> list[int]:
        """End every running job of `host` as lost; only the holder of the host's kernel lock may call it.

        Each goes back to the queue, or is cancelled if that was asked for. Returns the job ids.
        """
        with transaction(self._sql_engine) as connection:
            found = {"host": host, "why": Cleaner().text(why, "why")}
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
                return _claim(connection, host, job_id, runner, lease_ttl_s)
        except IntegrityError as error:
            if _broken_constraint(error) == _ONE_RUNNING_PER_HOST:
                return None
            raise

    def heartbeat(self, claim: Claim, lease_ttl_s: float, activity: str = "") -> Lease:
        """Prolong the lease by `lease_ttl_s` from now, by the database's clock, and say what the attempt does."""
        term = {
            **recording.term(claim),
            "lease_ttl_s": lease_ttl_s,
            "activity": Cleaner().text(activity, "activity") or None,
        }
        with transaction(self._sql_engine) as connection:
            cancel = connection.execute(statement("heartbeat"), term).scalar_one_or_none()
        if cancel is None:
            return Lease.LOST
        return Lease.CANCEL if cancel else Lease.HELD

    def record_phase(self, claim: Claim, phase: PhaseRecord) -> None:
        """Raises StaleFence."""
        with transaction(self._sql_engine) as connection:
            recording.record_phase(connection, claim, phase)

    def record_provenance(self, claim: Claim, values: Mapping[str, Any]) -> None:
        """Raises StaleFence."""
        with transaction(self._sql_engine) as connection:
            recording.record_provenance(connection, claim, values)

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
        with transaction(self._sql_engine) as connection:
            recording.record_configuration(connection, claim, check)

    def same_server(self, claim: Claim, effective_hash: str) -> SameServer | None:
        """Another job of the sweep, host and parallelism with an accepted attempt on an equal server, the first."""
        wanted = {"job_id": claim.job_id, "effective_hash": effective_hash}
        with transaction(self._sql_engine) as connection:
            row = connection.execute(statement("same_server"), wanted).first()
        return None if row is None else SameServer(row.job_id, row.label, row.requested or {})

    def record_measurement(self, claim: Claim, measurement: Measurement) -> None:
        """Raises StaleFence."""
        with transaction(self._sql_engine) as connection:
            recording.record_measurement(connection, claim, measurement)

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
        cleaner = Cleaner()
        clean_evidence = cleaner.optional_text(evidence, "evidence")
        with transaction(self._sql_engine) as connection:
            state = _finish_job(connection, claim, decision, failure, clean_evidence)
            if state is None:
                if _already_finished(connection, claim, outcome):
                    return
                raise StaleFence(recording.stale(claim, "finish"))
            ended = {
                "attempt_id": claim.attempt_id,
                "fence": claim.fence,
                "outcome": outcome.value,
                "failure": failure.value if failure else None,
                "evidence": clean_evidence,
            }
            connection.execute(statement("finish_attempt"), ended).one()
            detail = {"outcome": outcome, "failure": failure, "state": state, "counts": decision.counts}
            recording.write_attempt_event(connection, claim, EventKind.FINISHED, detail)
            recording.note_cleaned(connection, claim, cleaner)
            if decision.quarantine and failure is not None:
                quarantine(connection, claim.host, failure, clean_evidence or failure.value)
            elif outcome is AttemptOutcome.FAILED:
                apply_breaker(connection, claim.host)
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


def _claim(connection: Connection, host: str, job_id: int, runner: Runner, lease_ttl_s: float) -> Claim | None:
    wish = {"host": host, "job_id": job_id, "lease_ttl_s": lease_ttl_s}
    fence = connection.execute(statement("claim_job"), wish).scalar_one_or_none()
    if fence is None:
        return None
    started = {
        "job_id": job_id,
        "fence": fence,
        "runner_pid": runner.pid,
        "runner_start_ticks": runner.start_ticks,
        "worker": runner.worker,
    }
    attempt = connection.execute(statement("open_attempt"), started).one()
    job = connection.execute(statement("claimed_job"), {"job_id": job_id}).one()
    claim = Claim(
        job_id=job_id,
        attempt_id=attempt.id,
        attempt_number=attempt.number,
        tries_used=job.tries,
        fence=fence,
        host=host,
        sweep_id=job.sweep_id,
        sweep=f"{job.name}@{job.revision}",
        cell=Cell.from_canonical(job.canonical),
        cell_label=job.label,
        out_of_distribution=job.out_of_distribution,
        parallelism=Parallelism(tp=job.tp, ep=job.ep, pp=job.pp, dp=job.dp),
        measure=Measure.from_json(job.measure),
    )
    recording.write_attempt_event(connection, claim, EventKind.CLAIMED, {"number": attempt.number, "fence": fence})
    return claim


def _finish_job(
    connection: Connection, claim: Claim, decision: Decision, failure: Failure | None, evidence: str | None
) -> str | None:
    """The job's new state, or None when the fence is stale."""
    moved = {
        **recording.term(claim),
        "state": decision.state.value,
        "counts": decision.counts,
        "delay_s": decision.delay_s,
        "failure": failure.value if failure else None,
        "evidence": evidence,
    }
    state: str | None = connection.execute(statement("finish_job"), moved).scalar_one_or_none()
    return state


def _already_finished(connection: Connection, claim: Claim, outcome: AttemptOutcome) -> bool:
    """Whether this very finish was stored before: the answer to its commit was lost, and the caller asks again."""
    attempts = tables.attempts
    mine = (attempts.c.id == claim.attempt_id) & (attempts.c.fence == claim.fence)
    return connection.execute(select(attempts.c.outcome).where(mine)).scalar_one_or_none() == outcome.value


def _check_consistent(outcome: AttemptOutcome, decision: Decision, failure: Failure | None) -> None:
    if (outcome is AttemptOutcome.SUCCEEDED) != (decision.state is JobState.SUCCEEDED):
        raise ValueError(f"an attempt that {outcome} cannot make its job {decision.state}")
    if outcome is AttemptOutcome.SUCCEEDED and failure is not None:
        raise ValueError(f"an attempt that succeeded has no failure class, but {failure} was given")
    needs_class = outcome is AttemptOutcome.FAILED or decision.state in (JobState.FAILED, JobState.UNSUPPORTED)
    if needs_class and failure is None:
        raise ValueError(f"an attempt that {outcome} and makes its job {decision.state} needs a failure class")


def _broken_constraint(error: IntegrityError) -> str | None:
    diagnostics = getattr(error.orig, "diag", None)
    return getattr(diagnostics, "constraint_name", None)
