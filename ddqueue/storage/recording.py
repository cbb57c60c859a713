"""What an attempt stores while it runs. Every function begins by holding the fence, within the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, func, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from ddqueue.domain.measurement import Measurement
from ddqueue.domain.queueing import Claim, PhaseRecord
from ddqueue.errors import StaleFence
from ddqueue.ports import ConfigurationCheck
from ddqueue.storage import tables
from ddqueue.storage.events import EventKind, write_event
from ddqueue.storage.measured import measurement_row, sample_rows, telemetry_rows
from ddqueue.storage.statements import statement
from ddqueue.storage.storable import Cleaner


def term(claim: Claim) -> dict[str, Any]:
    """The parameters that name exactly this attempt's hold on its job."""
    return {"job_id": claim.job_id, "fence": claim.fence}


def stale(claim: Claim, what: str) -> str:
    """The text of a StaleFence."""
    return (
        f"{what} of job {claim.job_id} refused: fence {claim.fence} of attempt {claim.attempt_number} on {claim.host} "
        "is no longer the job's; nothing was written"
    )


def record_phase(connection: Connection, claim: Claim, phase: PhaseRecord) -> None:
    _hold_fence(connection, claim, f"phase {phase.name!r}")
    cleaner = Cleaner()
    phases = tables.phases
    last = select(func.coalesce(func.max(phases.c.seq), 0)).where(phases.c.attempt_id == claim.attempt_id)
    row = upsert(phases).values(
        attempt_id=claim.attempt_id,
        seq=last.scalar_subquery() + 1,
        name=phase.name,
        started_at=phase.started_at,
        duration_s=max(cleaner.number(phase.duration_s, "duration_s") or 0.0, 0.0),
        detail=cleaner.text(phase.detail, f"{phase.name}.detail"),
    )
    # The same step stored twice is a call repeated after a lost answer.
    connection.execute(row.on_conflict_do_nothing(index_elements=["attempt_id", "name", "started_at"]))
    note_cleaned(connection, claim, cleaner)


def record_provenance(connection: Connection, claim: Claim, values: Mapping[str, Any]) -> None:
    _hold_fence(connection, claim, "provenance")
    cleaner = Cleaner()
    _set_on_attempt(connection, claim, {"provenance": cleaner.json(values, "provenance")})
    note_cleaned(connection, claim, cleaner)


def record_configuration(connection: Connection, claim: Claim, check: ConfigurationCheck) -> None:
    _hold_fence(connection, claim, "configuration")
    cleaner = Cleaner()
    _set_on_attempt(
        connection,
        claim,
        {
            "requested": cleaner.json(check.requested, "requested"),
            "effective": cleaner.json(check.effective, "effective"),
            "difference": cleaner.json(check.difference, "difference"),
            "effective_hash": check.effective_hash or None,
        },
    )
    note_cleaned(connection, claim, cleaner)


def record_measurement(connection: Connection, claim: Claim, measurement: Measurement) -> None:
    _hold_fence(connection, claim, f"measurement {measurement.point.label}")
    cleaner = Cleaner()
    measurements = tables.measurements
    attempts = tables.attempts
    simulated = select(attempts.c.simulated).where(attempts.c.id == claim.attempt_id).scalar_subquery()
    row = upsert(measurements).values(
        attempt_id=claim.attempt_id, simulated=simulated, **measurement_row(measurement, cleaner)
    )
    # A repeat stored twice is a call repeated after a lost answer: the first one stands, with its samples.
    kept = row.on_conflict_do_nothing(
        index_elements=["attempt_id", "concurrency", "context_tokens", "output_tokens_asked", "repeat"]
    )
    measurement_id = connection.execute(kept.returning(measurements.c.id)).scalar_one_or_none()
    if measurement_id is None:
        return
    for table, rows in (
        (tables.samples, sample_rows(measurement, cleaner)),
        (tables.telemetry, telemetry_rows(measurement, cleaner)),
    ):
        if rows:
            connection.execute(table.insert(), [{"measurement_id": measurement_id, **row} for row in rows])
    note_cleaned(connection, claim, cleaner)


def write_attempt_event(connection: Connection, claim: Claim, kind: EventKind, detail: Mapping[str, Any]) -> None:
    """An event of this attempt."""
    write_event(
        connection,
        kind,
        detail,
        sweep_id=claim.sweep_id,
        job_id=claim.job_id,
        attempt_id=claim.attempt_id,
        host=claim.host,
    )


def note_cleaned(connection: Connection, claim: Claim, cleaner: Cleaner) -> None:
    """Say in the events what could not be stored as it was."""
    if cleaner.notes:
        write_attempt_event(connection, claim, EventKind.CLEANED, {"fields": cleaner.notes})


def _hold_fence(connection: Connection, claim: Claim, what: str) -> None:
    if connection.execute(statement("hold_fence"), term(claim)).first() is None:
        raise StaleFence(stale(claim, what))


def _set_on_attempt(connection: Connection, claim: Claim, values: Mapping[str, Any]) -> None:
    attempts = tables.attempts
    connection.execute(update(attempts).where(attempts.c.id == claim.attempt_id).values(**values))
