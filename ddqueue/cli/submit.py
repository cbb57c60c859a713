"""`ddqueue submit FILE`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ddqueue import settings
from ddqueue.cli.output import print_json
from ddqueue.domain.states import JobState

if TYPE_CHECKING:
    from sqlalchemy import Engine as SqlEngine

    from ddqueue.storage.references import SweepReference


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--inventory", type=click.Path(path_type=Path), help="The inventory file; else as DDQUEUE_INVENTORY says."
)
@click.option("--priority", type=int, default=0, show_default=True, help="Sweeps of a higher priority run first.")
@click.option("--after", metavar="SWEEP", help="Start when every job of SWEEP (name or name@2) has ended.")
@click.option(
    "--wait", is_flag=True, help="Show what happens until the sweep has ended; exit code 1 unless all went well."
)
@click.option(
    "--webhook",
    metavar="URL",
    help="Tell this URL, in JSON, when the sweep ends or a host of it is quarantined. Others can read arguments:"
    " one that holds a secret is better given by DDQUEUE_WEBHOOK_URL or DDQUEUE_WEBHOOK_URL_FILE.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --wait, at the end.")
def submit(
    file: Path,
    inventory: Path | None,
    priority: int,
    after: str | None,
    wait: bool,
    webhook: str | None,
    as_json: bool,
) -> None:
    """Queue the sweep that FILE describes.

    A name that was submitted before gets a new revision. Only Postgres is needed: the jobs run as soon as a dispatcher
    and the hosts' workers do. ^C while it waits ends the waiting only.
    """
    from ddqueue import bootstrap
    from ddqueue.files.sweep_file import read_sweep
    from ddqueue.services.submit import submit as store_sweep
    from ddqueue.storage.pooled_reads import PooledReads
    from ddqueue.storage.references import SweepReference, find_sweep
    from ddqueue.storage.sweeps import PostgresSweepStore

    known = bootstrap.inventory(inventory)
    sweep = read_sweep(file, known)
    bootstrap.check_schema()
    engine = bootstrap.sql_engine("ddqueue submit")
    earlier = None if after is None else find_sweep(PooledReads(engine), after)
    stored = store_sweep(
        sweep,
        known,
        PostgresSweepStore(engine),
        priority,
        after=None if earlier is None else earlier.sweep_id,
        webhook=webhook or settings.webhook_url(),
    )
    reference = SweepReference(stored.sweep_id, stored.name, stored.revision)
    if not as_json:
        simulated = " (simulated)" if sweep.simulated else ""
        waits = "" if earlier is None else f", when {earlier} has ended"
        click.echo(f"queued {reference}: {stored.jobs} jobs on {', '.join(sweep.hosts)}{simulated}{waits}")
        click.echo(f"  ddqueue status {reference}\n  ddqueue results {reference}")
    states = _wait(engine, reference) if wait else None
    if as_json:
        told = {"sweep": stored.name, "revision": stored.revision, "sweep_id": stored.sweep_id, "jobs": stored.jobs}
        print_json(told if states is None else told | {"states": states})
    if states is not None and not set(states) <= {JobState.SUCCEEDED, JobState.PRUNED}:
        sys.exit(1)


def _wait(engine: SqlEngine, sweep: SweepReference) -> dict[str, int]:
    """The number of jobs in each state that there is, once the sweep has ended."""
    from ddqueue import bootstrap
    from ddqueue.cli.live import watch
    from ddqueue.storage.pooled_reads import PooledReads
    from ddqueue.storage.reading import PostgresReader

    try:
        watch(engine, sys.stderr, sweep, bootstrap.patience().database_away_s)
    except KeyboardInterrupt:
        click.echo(f"\n{sweep} stays queued and goes on without you: ddqueue status {sweep} --watch", err=True)
        click.echo(f"  to end it: ddqueue cancel {sweep}", err=True)
        raise
    states = dict(Counter(job["state"] for job in PostgresReader(PooledReads(engine)).jobs(sweep.sweep_id)))
    click.echo(f"{sweep} has ended: {', '.join(f'{count} {state}' for state, count in states.items())}", err=True)
    return states
