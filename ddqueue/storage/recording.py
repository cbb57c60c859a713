"""What an attempt stores while it runs. Every write begins by holding the fence, within the caller's transaction, and
may be repeated: what was stored before stands."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from ddqueue.errors import StaleFence
from ddqueue.storage import tables
from ddqueue.storage.coding import write_answers, write_scores
from ddqueue.storage.entries import Entry, EntryKind, Term
from ddqueue.storage.events import EventKind, write_event
from ddqueue.storage.statements import statement


def parameters(term: Term) -> dict[str, Any]:
    """The parameters that name exactly this attempt's hold on its job."""
    return {"job_id": term.job_id, "fence": term.fence}


def stale(term: Term, what: str) -> str:
    """The text of a StaleFence."""
    return (
        f"{what} of job {term.job_id} refused: fence {term.fence} of attempt {term.attempt_number} on {term.host} "
        "is no longer the job's; nothing was written"
    )


def write(connection: Connection, term: Term, entry: Entry) -> None:
    """Store one entry, but for a finish. Raises StaleFence."""
    if connection.execute(statement("hold_fence"), parameters(term)).first() is None:
        raise StaleFence(stale(term, entry.what))
    if entry.kind is EntryKind.PHASE:
        _write_phase(connection, term, entry.values)
    elif entry.kind is EntryKind.MEASUREMENT:
        _write_measurement(connection, term, entry.values)
    elif entry.kind is EntryKind.ANSWERS:
        write_answers(connection, term.attempt_id, entry.values)
    elif entry.kind is EntryKind.SCORES:
        write_scores(connection, term.attempt_id, entry.values)
    elif entry.kind in (EntryKind.PROVENANCE, EntryKind.CONFIGURATION):
        attempts = tables.attempts
        connection.execute(update(attempts).where(attempts.c.id == term.attempt_id).values(**entry.values))
    else:
        raise ValueError(f"{entry.kind} is not written so")
    note_cleaned(connection, term, entry)


def write_attempt_event(connection: Connection, term: Term, kind: EventKind, detail: Mapping[str, Any]) -> None:
    """An event of this attempt."""
    write_event(
        connection,
        kind,
        detail,
        sweep_id=term.sweep_id,
        job_id=term.job_id,
        attempt_id=term.attempt_id,
        host=term.host,
    )


def note_cleaned(connection: Connection, term: Term, entry: Entry) -> None:
    """Say in the events what could not be stored as it was."""
    if entry.notes:
        write_attempt_event(connection, term, EventKind.CLEANED, {"fields": list(entry.notes)})


def _write_phase(connection: Connection, term: Term, values: Mapping[str, Any]) -> None:
    phases = tables.phases
    last = select(func.coalesce(func.max(phases.c.seq), 0)).where(phases.c.attempt_id == term.attempt_id)
    row = upsert(phases).values(
        attempt_id=term.attempt_id,
        seq=last.scalar_subquery() + 1,
        **{**values, "started_at": datetime.fromisoformat(values["started_at"])},
    )
    # The same step stored twice is a call repeated after a lost answer.
    connection.execute(row.on_conflict_do_nothing(index_elements=["attempt_id", "name", "started_at"]))


def _write_measurement(connection: Connection, term: Term, values: Mapping[str, Any]) -> None:
    measurements, attempts = tables.measurements, tables.attempts
    simulated = select(attempts.c.simulated).where(attempts.c.id == term.attempt_id).scalar_subquery()
    row = upsert(measurements).values(
        attempt_id=term.attempt_id,
        simulated=simulated,
        **{**values["measurement"], "started_at": datetime.fromisoformat(values["measurement"]["started_at"])},
    )
    # A repeat stored twice is a call repeated after a lost answer: the first one stands, with its samples.
    kept = row.on_conflict_do_nothing(
        index_elements=["attempt_id", "concurrency", "context_tokens", "output_tokens_asked", "repeat"]
    )
    measurement_id = connection.execute(kept.returning(measurements.c.id)).scalar_one_or_none()
    if measurement_id is None:
        return
    for table, rows in ((tables.samples, values["samples"]), (tables.telemetry, values["telemetry"])):
        if rows:
            connection.execute(table.insert(), [{"measurement_id": measurement_id, **row} for row in rows])
