"""`ddqueue logs JOB`."""

from __future__ import annotations

import socket
from pathlib import Path

import click

from ddqueue.errors import DdqueueError, UsageError


@click.command()
@click.argument("job", type=int)
@click.option("--attempt", type=int, help="The attempt's number; else the latest.")
@click.option("--lines", type=click.IntRange(1), default=50, show_default=True, help="How many, from the end.")
def logs(job: int, attempt: int | None, lines: int) -> None:
    """The end of the server's log of a job's attempt, on the machine that ran it."""
    from ddqueue import bootstrap
    from ddqueue.storage.reading import PostgresReader

    with bootstrap.reads("ddqueue logs") as reads:
        row = PostgresReader(reads).job(job)
    attempts = {one["number"]: one for one in row["attempts"]}
    number = attempt or max(attempts, default=0)
    if number not in attempts:
        have = ", ".join(map(str, attempts)) or "none"
        raise UsageError(f"job {job} has no attempt {number}; it has {have}" if number else f"job {job} never started")
    provenance = attempts[number]["provenance"] or {}
    name = provenance.get("log")
    if name is None:
        raise DdqueueError(f"attempt {number} of job {job} ended before it started a server")
    path = Path(name)
    if not path.is_file():
        where = provenance.get("machine", {}).get("name", row["host"])
        here = f"; this is {socket.gethostname()}" if where != socket.gethostname() else ", and was removed there"
        raise DdqueueError(f"the log is {path} on {where}{here}")
    text = path.read_bytes().decode("utf-8", "replace").splitlines()
    click.echo("\n".join(text[-lines:]))
