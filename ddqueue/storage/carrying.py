"""What earlier attempts of a job measured on an equal server, taken over by the attempt that goes on."""

from __future__ import annotations

from sqlalchemy import Connection, insert, literal, select
from sqlalchemy.dialects.postgresql import insert as upsert

from ddqueue.domain.queueing import CarriedRepeat
from ddqueue.domain.sweep import Point
from ddqueue.errors import StaleFence
from ddqueue.storage import recording, tables
from ddqueue.storage.entries import Term
from ddqueue.storage.statements import statement

_POINT_AND_REPEAT = ("concurrency", "context_tokens", "output_tokens_asked", "repeat")


def carry_over(connection: Connection, term: Term, effective_hash: str) -> list[CarriedRepeat]:
    """Copy the valid measurements of the job's earlier attempts into this one, with samples and telemetry, and say
    what was copied. The originals stay where they are. Raises StaleFence."""
    if connection.execute(statement("hold_fence"), recording.parameters(term)).first() is None:
        raise StaleFence(recording.stale(term, "carrying over"))
    measurements, attempts = tables.measurements, tables.attempts
    same = (
        (attempts.c.job_id == term.job_id)
        & (attempts.c.id != term.attempt_id)
        & (attempts.c.effective_hash == effective_hash)
    )
    kept = [column.name for column in measurements.columns if column.name not in ("id", "attempt_id", "carried_from")]
    # Rows that were carried before are left where they were first: each is copied from the attempt that measured it.
    earlier = (
        select(literal(term.attempt_id), attempts.c.id, *(measurements.c[name] for name in kept))
        .join(attempts, attempts.c.id == measurements.c.attempt_id)
        .where(same, measurements.c.valid, measurements.c.carried_from.is_(None))
        .order_by(attempts.c.number.desc())
    )
    copied = (
        upsert(measurements)
        .from_select(["attempt_id", "carried_from", *kept], earlier)
        .on_conflict_do_nothing(index_elements=["attempt_id", *_POINT_AND_REPEAT])
    )
    connection.execute(copied)
    _copy_details(connection, term)
    mine = (measurements.c.attempt_id == term.attempt_id) & measurements.c.carried_from.is_not(None)
    rows = connection.execute(
        select(*(measurements.c[name] for name in _POINT_AND_REPEAT), measurements.c.output_throughput_tok_s)
        .where(mine)
        .order_by(*(measurements.c[name] for name in _POINT_AND_REPEAT))
    )
    return [
        CarriedRepeat(
            Point(row.concurrency, row.context_tokens, row.output_tokens_asked),
            row.repeat,
            row.output_throughput_tok_s,
        )
        for row in rows
    ]


def _copy_details(connection: Connection, term: Term) -> None:
    new, old = tables.measurements.alias("new"), tables.measurements.alias("old")
    pair = (new.c.carried_from == old.c.attempt_id) & (new.c.attempt_id == term.attempt_id)
    for name in _POINT_AND_REPEAT:
        pair &= new.c[name] == old.c[name]
    for table in (tables.samples, tables.telemetry):
        columns = [column.name for column in table.columns if column.name != "measurement_id"]
        # Repeating the call must not copy twice.
        copies = table.alias("copies")
        there = select(copies.c.measurement_id).where(copies.c.measurement_id == new.c.id).exists()
        details = (
            select(new.c.id, *(table.c[name] for name in columns))
            .select_from(new)
            .join(old, pair)
            .join(table, table.c.measurement_id == old.c.id)
            .where(~there)
        )
        connection.execute(insert(table).from_select(["measurement_id", *columns], details))
