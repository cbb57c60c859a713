"""Results measured by hand, stored as a sweep that is marked: its attempts never ran here, and say so.

What the file does not say stays null: no fence, no runner, no phases, no times, no token counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Engine, func, insert

from ddqueue.domain.hand_measured import HandMeasured, HandMeasuredRow, ImportedBy
from ddqueue.domain.inventory import Host
from ddqueue.domain.marks import Mark
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.domain.sweep import JobSpec, Sweep
from ddqueue.ports import Submitted
from ddqueue.storage import tables
from ddqueue.storage.engine import transaction
from ddqueue.storage.events import EventKind, write_event
from ddqueue.storage.storable import Cleaner
from ddqueue.storage.sweeps import job_rows, store_sweep


def import_measured(
    sql_engine: Engine,
    sweep: Sweep,
    jobs: Sequence[JobSpec],
    hosts: Sequence[Host],
    measured: HandMeasured,
    imported: ImportedBy,
) -> Submitted:
    """Store it as a new revision of the sweep's name; `jobs[n]` is that of `measured.rows[n]`. Raises NotReachable."""
    cleaner = Cleaner()
    source = {
        "file": cleaner.text(measured.file_name, "file"),
        "sha256": measured.sha256,
        "by": cleaner.text(imported.by, "by"),
        "measured_on": cleaner.optional_text(imported.measured_on, "measured_on"),
        "note": cleaner.optional_text(imported.note, "note"),
    }
    with transaction(sql_engine) as connection:
        sweep_id, revision = store_sweep(connection, sweep, hosts, cleaner, imported=source)
        for job, row in zip(job_rows(jobs, sweep_id), measured.rows, strict=True):
            _add_row(connection, job, row, cleaner)
        detail = {"revision": revision, "jobs": len(jobs), **source}
        write_event(connection, EventKind.IMPORTED, detail, sweep_id=sweep_id)
        if cleaner.notes:
            write_event(connection, EventKind.CLEANED, {"fields": cleaner.notes}, sweep_id=sweep_id)
    return Submitted(sweep_id, sweep.name, revision, len(jobs))


def _add_row(connection: Connection, job: dict[str, Any], row: HandMeasuredRow, cleaner: Cleaner) -> None:
    now = func.clock_timestamp()
    ended = {"state": JobState.SUCCEEDED.value, "finished_at": now}
    job_id = connection.execute(insert(tables.jobs).values({**job, **ended}).returning(tables.jobs.c.id)).scalar_one()
    said = {
        "line": row.line,
        "acceptance_length": row.acceptance_length,
        "coding": cleaner.optional_text(row.coding, f"line {row.line}: coding"),
        "written": cleaner.json(dict(row.written), f"line {row.line}"),
    }
    attempt = insert(tables.attempts).values(
        job_id=job_id,
        number=1,
        host=row.host,
        started_at=now,
        ended_at=now,
        outcome=AttemptOutcome.SUCCEEDED.value,
        simulated=False,
        imported=said,
    )
    attempt_id = connection.execute(attempt.returning(tables.attempts.c.id)).scalar_one()
    connection.execute(insert(tables.measurements), _measurement_rows(attempt_id, row))


def _measurement_rows(attempt_id: int, row: HandMeasuredRow) -> list[dict[str, Any]]:
    return [
        {
            "attempt_id": attempt_id,
            "concurrency": point.concurrency,
            "context_tokens": point.context,
            "output_tokens_asked": point.output,
            "repeat": repeat,
            "output_throughput_tok_s": value,
            "valid": True,
            "reasons": [],
            "marks": [Mark.IMPORTED.value],
            "client": {},
            "simulated": False,
        }
        for point, values in row.throughputs_tok_s.items()
        for repeat, value in enumerate(values, start=1)
    ]
