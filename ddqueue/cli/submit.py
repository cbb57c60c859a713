"""`ddqueue submit FILE`."""

from __future__ import annotations

from pathlib import Path

import click

from ddqueue.cli.output import print_json


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--inventory", type=click.Path(path_type=Path), help="The inventory file; else as DDQUEUE_INVENTORY says."
)
@click.option("--priority", type=int, default=0, show_default=True, help="Sweeps of a higher priority run first.")
@click.option("--after", metavar="SWEEP", help="Start when every job of SWEEP (name or name@2) has ended.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def submit(file: Path, inventory: Path | None, priority: int, after: str | None, as_json: bool) -> None:
    """Queue the sweep that FILE describes.

    A name that was submitted before gets a new revision. Only Postgres is needed: the jobs run as soon as a dispatcher
    and the hosts' workers do.
    """
    from ddqueue import bootstrap
    from ddqueue.files.sweep_file import read_sweep
    from ddqueue.services.submit import submit as store_sweep
    from ddqueue.storage.references import find_sweep
    from ddqueue.storage.sweeps import PostgresSweepStore

    known = bootstrap.inventory(inventory)
    sweep = read_sweep(file, known)
    bootstrap.check_schema()
    engine = bootstrap.sql_engine("ddqueue submit")
    earlier = None if after is None else find_sweep(engine, after)
    stored = store_sweep(
        sweep, known, PostgresSweepStore(engine), priority, None if earlier is None else earlier.sweep_id
    )
    if as_json:
        print_json(
            {"sweep": stored.name, "revision": stored.revision, "sweep_id": stored.sweep_id, "jobs": stored.jobs}
        )
        return
    reference = f"{stored.name}@{stored.revision}"
    simulated = " (simulated)" if sweep.simulated else ""
    waits = "" if earlier is None else f", when {earlier} has ended"
    click.echo(f"queued {reference}: {stored.jobs} jobs on {', '.join(sweep.hosts)}{simulated}{waits}")
    click.echo(f"  ddqueue status {reference}\n  ddqueue results {reference}")
