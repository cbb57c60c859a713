"""`ddqueue demo`: the main job, on embedded servers and two simulated boxes; everything between is the real path."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ddqueue.errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy import Engine as SqlEngine

_QUESTION = "select host, label, acceptance_length from results order by host, acceptance_length"


@click.command()
def demo() -> None:
    """Measure a small sweep on two simulated boxes and print its tables; some two minutes.

    Starts embedded Postgres and Valkey (or uses those of `ddqueue up`), a dispatcher and a worker for each box, and
    stops what it started. The results stay in ddqueue's folder.
    """
    from ddqueue import settings

    home = settings.home()
    with _alone(home), _embedded_servers(home):
        os.environ[settings.INVENTORY] = str(_write_example(home, "inventory-sim.yaml"))
        succeeded = _run(home, _write_example(home, "demo.yaml"))
    _print_next()
    if not succeeded:
        sys.exit(1)


def _run(home: Path, sweep_file: Path) -> bool:
    """Submit, wait, print; True when every job succeeded."""
    from ddqueue import bootstrap, settings
    from ddqueue.cli.results import print_results
    from ddqueue.cli.side_processes import side_processes
    from ddqueue.cli.watching import wait_for
    from ddqueue.domain.states import JobState
    from ddqueue.files.sweep_file import read_sweep
    from ddqueue.report.results import Format
    from ddqueue.services.submit import submit
    from ddqueue.storage.migrate import upgrade
    from ddqueue.storage.reading import PostgresReader
    from ddqueue.storage.sweeps import PostgresSweepStore

    upgrade(settings.database_url())
    engine = bootstrap.sql_engine("ddqueue demo")
    known = bootstrap.inventory()
    sweep = read_sweep(sweep_file, known)
    _clear_the_way(engine, sweep.name, sweep.hosts)
    stored = submit(sweep, known, PostgresSweepStore(engine))
    reference = f"{stored.name}@{stored.revision}"
    click.echo(f"Submitted {reference}: {stored.jobs} jobs; each is a server that is started, measured and stopped.")
    reader = PostgresReader(engine)
    commands = {"dispatcher": ["dispatcher"]} | {f"worker-{host}": ["worker", "--host", host] for host in sweep.hosts}
    with side_processes(commands, home / "logs" / "demo") as check, _cancelled_on_interrupt(engine, stored.sweep_id):
        jobs = wait_for(reader, stored.sweep_id, check)
    click.echo()
    print_results(reader, reference, Format.TABLE)
    return all(job["state"] == JobState.SUCCEEDED for job in jobs)


@contextlib.contextmanager
def _alone(home: Path) -> Iterator[None]:
    """One demo at a time in one folder: two would share their boxes."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another demo runs in {home}; wait for it, or set DDQUEUE_HOME") from None
        yield


@contextlib.contextmanager
def _embedded_servers(home: Path) -> Iterator[None]:
    """The demo never touches the servers that DDQUEUE_DATABASE_URL or DDQUEUE_REDIS_URL name."""
    from ddqueue import settings
    from ddqueue.local import servers

    ours = servers.running(home) is None
    click.echo("Starting embedded Postgres and Valkey ..." if ours else "Using the embedded Postgres and Valkey ...")
    urls = servers.start(home)
    try:
        os.environ[settings.DATABASE] = urls.database_url
        os.environ[settings.REDIS] = urls.redis_url
        yield
    finally:
        if ours:
            servers.stop(home)


@contextlib.contextmanager
def _cancelled_on_interrupt(engine: SqlEngine, sweep_id: int) -> Iterator[None]:
    """^C ends the sweep too: nobody will be there to run the rest."""
    from ddqueue.storage.control import PostgresControl
    from ddqueue.storage.references import Target

    try:
        yield
    except KeyboardInterrupt:
        PostgresControl(engine).cancel(Target(sweep_id))
        raise


def _clear_the_way(engine: SqlEngine, sweep: str, hosts: tuple[str, ...]) -> None:
    """What an earlier demo left: its jobs, and a quarantine of these boxes, which exist only in software."""
    from ddqueue.storage.control import PostgresControl
    from ddqueue.storage.reading import PostgresReader
    from ddqueue.storage.references import Target

    control, reader = PostgresControl(engine), PostgresReader(engine)
    for row in reader.sweeps():
        if row["name"] == sweep and (row["queued"] or row["running"]):
            control.cancel(Target(row["id"]))
    for host in {row["name"] for row in reader.hosts()}.intersection(hosts):
        control.release(host)


def _write_example(home: Path, name: str) -> Path:
    """A file of its own, since errors and processes name files, not package data."""
    from ddqueue.files.examples import example

    path = home / "demo" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(example(name))
    return path


def _print_next() -> None:
    program = os.path.relpath(sys.argv[0]) if "/" in sys.argv[0] else "ddqueue"
    lines = [
        "These numbers are simulated. Next:",
        f"  {program} up                                # the same servers again, in the background",
        f"  {program} results demo --format markdown    # the table once more, to paste somewhere",
        f'  {program} sql "{_QUESTION}"',
    ]
    click.echo("\n" + "\n".join(lines))
