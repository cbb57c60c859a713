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

    from ddqueue.storage.reading import PostgresReader

_QUESTION = "select host, label, acceptance_length from results order by host, acceptance_length"


@click.command()
def demo() -> None:
    """Measure a small sweep on two simulated boxes and print its tables; about four minutes.

    Starts embedded Postgres and Valkey (or uses those of `ddqueue up`), a dispatcher and a worker for each box, and
    stops what it started. The results stay in ddqueue's folder.
    """
    from ddqueue import settings

    home = settings.home()
    with _alone(home), _embedded_servers(home):
        os.environ[settings.INVENTORY] = str(_write_example(home, "inventory-sim.yaml"))
        _write_example(home, "demo-block16.yaml")
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
    from ddqueue.storage.pooled_reads import PooledReads
    from ddqueue.storage.reading import PostgresReader
    from ddqueue.storage.sweeps import PostgresSweepStore

    upgrade(settings.database_url())
    engine = bootstrap.sql_engine("ddqueue demo")
    reader = PostgresReader(PooledReads(engine))
    known = bootstrap.inventory()
    sweep = read_sweep(sweep_file, known)
    _clear_the_way(engine, sweep.name, sweep.hosts)
    stored = submit(sweep, known, PostgresSweepStore(engine))
    reference: str | None = f"{stored.name}@{stored.revision}"
    click.echo(f"Submitted {reference}: {stored.jobs} jobs; each is a server that is started, measured and stopped.")
    click.echo(f"Meanwhile, in another terminal: {_program()} status\n")
    commands = {"dispatcher": ["dispatcher"]} | {f"worker-{host}": ["worker", "--host", host] for host in sweep.hosts}
    succeeded = True
    with side_processes(commands, home / "logs" / "demo") as check:
        while reference is not None:
            sweep_id = reader.sweep(reference).sweep_id
            with _cancelled_on_interrupt(engine, sweep_id):
                jobs = wait_for(reader, sweep_id, check)
            click.echo()
            print_results(reader, reference, Format.TABLE)
            succeeded = succeeded and all(job["state"] == JobState.SUCCEEDED for job in jobs)
            reference = _submitted_meanwhile(reader, sweep.hosts)
    engine.dispose()
    return succeeded


def _submitted_meanwhile(reader: PostgresReader, hosts: tuple[str, ...]) -> str | None:
    """The demo goes on while its boxes have work: somebody may have queued a second sweep behind the first."""
    for row in reader.queue():
        if row["host"] in hosts and row["waits_for"] is None:
            click.echo(f"\n{row['sweep']} was submitted meanwhile; going on with it.")
            return str(row["sweep"])
    return None


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
    from ddqueue.storage.pooled_reads import PooledReads
    from ddqueue.storage.reading import PostgresReader
    from ddqueue.storage.references import Target

    control, reader = PostgresControl(engine), PostgresReader(PooledReads(engine))
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
    program = _program()
    lines = [
        "These numbers are simulated. Next:",
        f"  {program} up                                # the same servers again, in the background",
        f"  {program} results demo --format markdown    # the table once more, to paste somewhere",
        f"  {program} report demo -o demo.html          # one page with plots, to mail",
        f'  {program} sql "{_QUESTION}"',
    ]
    click.echo("\n" + "\n".join(lines))


def _program() -> str:
    """How the person called us, short enough to be typed."""
    return os.path.relpath(sys.argv[0]) if "/" in sys.argv[0] else "ddqueue"
