"""Submitting: a sweep with its cells and jobs, stored in one transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, insert, text
from sqlalchemy.dialects.postgresql import insert as upsert

from ddqueue.domain.inventory import Host
from ddqueue.domain.sweep import JobSpec, Sweep
from ddqueue.ports import Submitted
from ddqueue.storage import tables
from ddqueue.storage.engine import transaction
from ddqueue.storage.events import EventKind, announce, write_event
from ddqueue.storage.statements import statement
from ddqueue.storage.storable import Cleaner
from ddqueue.storage.webhooks import add_webhook


class PostgresSweepStore:
    """Implements ports.SweepStore."""

    def __init__(self, sql_engine: Engine) -> None:
        self._sql_engine = sql_engine

    def add(
        self,
        sweep: Sweep,
        jobs: Sequence[JobSpec],
        hosts: Sequence[Host],
        priority: int = 0,
        after: int | None = None,
        webhook: str | None = None,
    ) -> Submitted:
        """Store the sweep as a new revision of its name; the dispatcher is woken when the transaction commits.

        `hosts` must hold every host that a job names; `after` is the id of the sweep that must have ended before;
        `webhook` is the URL that is told of its end. Raises NotReachable.
        """
        cleaner = Cleaner()
        with transaction(self._sql_engine) as connection:
            sweep_id, revision = store_sweep(connection, sweep, hosts, cleaner, priority=priority, after_sweep_id=after)
            if jobs:
                connection.execute(statement("add_jobs"), {"jobs": json.dumps(job_rows(jobs, sweep_id))})
            if webhook is not None:
                add_webhook(connection, sweep_id, webhook)
            write_event(connection, EventKind.SUBMITTED, {"revision": revision, "jobs": len(jobs)}, sweep_id=sweep_id)
            if cleaner.notes:
                write_event(connection, EventKind.CLEANED, {"fields": cleaner.notes}, sweep_id=sweep_id)
            announce(connection)
        return Submitted(sweep_id, sweep.name, revision, len(jobs))


def store_sweep(
    connection: Connection, sweep: Sweep, hosts: Sequence[Host], cleaner: Cleaner, **more: Any
) -> tuple[int, int]:
    """The sweep with its cells and hosts, but no job; returns its id and revision. `more` are further columns."""
    revision = _next_revision(connection, sweep.name)
    sweep_id = _add_sweep(connection, sweep, revision, cleaner, more)
    connection.execute(insert(tables.cells), _cell_rows(sweep, sweep_id, cleaner))
    _remember_hosts(connection, hosts)
    return sweep_id, revision


def _next_revision(connection: Connection, name: str) -> int:
    connection.execute(
        text("SELECT pg_advisory_xact_lock(hashtext('ddqueue.revision'), hashtext(:name))"), {"name": name}
    )
    return int(connection.execute(statement("next_revision"), {"name": name}).scalar_one())


def _add_sweep(connection: Connection, sweep: Sweep, revision: int, cleaner: Cleaner, more: Mapping[str, Any]) -> int:
    row = insert(tables.sweeps).values(
        name=sweep.name,
        revision=revision,
        model=sweep.model,
        engine=sweep.engine,
        hypothesis=cleaner.optional_text(sweep.hypothesis, "hypothesis"),
        out_of_distribution=sweep.out_of_distribution.value,
        simulated=sweep.simulated,
        file_name=cleaner.text(sweep.file_name, "file_name"),
        file_text=cleaner.text(sweep.file_text, "file_text"),
        measure=sweep.measure.to_json(),
        **more,
    )
    return int(connection.execute(row.returning(tables.sweeps.c.id)).scalar_one())


def _cell_rows(sweep: Sweep, sweep_id: int, cleaner: Cleaner) -> list[dict[str, Any]]:
    rows = []
    for position, asked in enumerate(sweep.cells):
        speculation = asked.cell.speculation
        rows.append(
            {
                "sweep_id": sweep_id,
                "hash": asked.cell.hash,
                "position": position,
                "label": cleaner.text(asked.label, f"cells[{position}].label"),
                "canonical": asked.cell.canonical(),
                "baseline": asked.cell.is_baseline,
                "out_of_distribution": asked.out_of_distribution,
                "block_size": speculation.block_size if speculation else None,
                "budget": speculation.budget if speculation else None,
                "topk": speculation.topk if speculation else None,
                "draft_window": speculation.window if speculation else None,
            }
        )
    return rows


def job_rows(jobs: Sequence[JobSpec], sweep_id: int) -> list[dict[str, Any]]:
    """The rows of `jobs`, in the order in which they are to run."""
    return [
        {
            "sweep_id": sweep_id,
            "cell_hash": job.cell.cell.hash,
            "host": job.host,
            "parallel": job.parallelism.label,
            "tp": job.parallelism.tp,
            "ep": job.parallelism.ep,
            "pp": job.parallelism.pp,
            "dp": job.parallelism.dp,
            "visit": job.visit,
            "control": job.control,
            "position": position,
        }
        for position, job in enumerate(jobs)
    ]


def _remember_hosts(connection: Connection, hosts: Sequence[Host]) -> None:
    """Keep what the inventory says of each host; quarantine and holds are not the inventory's and stay."""
    # In the order of names, so that two submissions cannot lock the rows crosswise.
    for host in sorted(hosts, key=lambda host: host.name):
        described = {
            "gpus": host.gpus,
            "gpu_kind": host.gpu_kind,
            "interconnect": host.interconnect,
            "simulated": host.simulated,
        }
        row = upsert(tables.hosts).values(name=host.name, **described)
        connection.execute(row.on_conflict_do_update(index_elements=["name"], set_=described))
