"""Every measurement of a sweep as flat rows: with its sweep, cell, host, job and attempt in each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Boolean, DateTime, Double, Engine, Integer, Select, Text, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.types import TypeEngine

from ddqueue.domain.exporting import ColumnKind, ExportColumn
from ddqueue.domain.states import AttemptOutcome
from ddqueue.storage import tables
from ddqueue.storage.engine import transaction

FETCHED_AT_ONCE = 1000

_OWN = frozenset({"id", "attempt_id"})


def export_columns() -> tuple[ExportColumn, ...]:
    """The columns, in order."""
    return tuple(ExportColumn(column.name, _kind(column.type)) for column in _query().selected_columns)


def export_rows(sql_engine: Engine, sweep_id: int) -> Iterator[dict[str, Any]]:
    """The rows, attempt by attempt in the sweep's order; also of attempts that failed, and rows that are not valid.

    They are fetched as they are asked for, so that a long sweep needs no more memory than a short one. Raises
    NotReachable.
    """
    query = _query().where(tables.sweeps.c.id == sweep_id)
    with transaction(sql_engine) as connection:
        options = {"stream_results": True, "yield_per": FETCHED_AT_ONCE}
        for row in connection.execution_options(**options).execute(query).mappings():
            yield dict(row)


def _query() -> Select[Any]:
    sweeps, cells, hosts, jobs = tables.sweeps.c, tables.cells.c, tables.hosts.c, tables.jobs.c
    attempts, measurements = tables.attempts.c, tables.measurements.c
    columns: list[ColumnElement[Any]] = [
        sweeps.name.label("sweep"),
        sweeps.revision.label("sweep_revision"),
        *(sweeps.model, sweeps.engine),
        sweeps.imported.is_not(None).label("imported"),
        *(cells.hash.label("cell_hash"), cells.label, cells.baseline, cells.out_of_distribution),
        *(cells.block_size, cells.budget, cells.topk, cells.draft_window),
        cells.canonical.label("configuration"),
        *(jobs.host, hosts.gpus, hosts.gpu_kind, hosts.interconnect),
        *(jobs.parallel, jobs.tp, jobs.ep, jobs.pp, jobs.dp),
        *(jobs.id.label("job_id"), jobs.visit, jobs.control, jobs.state.label("job_state")),
        *(attempts.id.label("attempt_id"), attempts.number.label("attempt"), attempts.outcome.label("attempt_outcome")),
        (attempts.outcome.is_not_distinct_from(AttemptOutcome.SUCCEEDED.value)).label("accepted"),
        attempts.failure.label("attempt_failure"),
        attempts.started_at.label("attempt_started_at"),
        attempts.ended_at.label("attempt_ended_at"),
        attempts.effective_hash,
        measurements.id.label("measurement_id"),
        *(column for column in measurements if column.name not in _OWN),
    ]
    joined = (
        tables.measurements.join(tables.attempts, attempts.id == measurements.attempt_id)
        .join(tables.jobs, jobs.id == attempts.job_id)
        .join(tables.sweeps, sweeps.id == jobs.sweep_id)
        .join(tables.cells, (cells.sweep_id == jobs.sweep_id) & (cells.hash == jobs.cell_hash))
        .join(tables.hosts, hosts.name == jobs.host)
    )
    return select(*columns).select_from(joined).order_by(jobs.position, attempts.number, measurements.id)


_KINDS: tuple[tuple[type[TypeEngine[Any]], ColumnKind], ...] = (
    (Boolean, ColumnKind.TRUTH),
    (BigInteger, ColumnKind.INTEGER),
    (Integer, ColumnKind.INTEGER),
    (Double, ColumnKind.NUMBER),
    (DateTime, ColumnKind.MOMENT),
    (JSONB, ColumnKind.JSON),
    (Text, ColumnKind.TEXT),
)


def _kind(column_type: TypeEngine[Any]) -> ColumnKind:
    if isinstance(column_type, ARRAY):
        return ColumnKind.INTEGERS if isinstance(column_type.item_type, BigInteger) else ColumnKind.TEXTS
    for known, kind in _KINDS:
        if isinstance(column_type, known):
            return kind
    raise TypeError(f"no kind for {column_type!r}")
