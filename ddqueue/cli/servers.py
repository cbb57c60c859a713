"""`ddqueue up` and `ddqueue down`: the embedded Postgres and Valkey of this machine."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from ddqueue import settings
from ddqueue.local import servers
from ddqueue.local.home import Home
from ddqueue.local.supervisor import supervise


@click.command()
@click.option("--foreground", is_flag=True, help="Stay attached and log to the terminal; ^C stops both servers.")
def up(foreground: bool) -> None:
    """Start Postgres and Valkey from wheels, for a machine that has neither.

    They run in the background until `ddqueue down`, and come back by themselves when one of them dies.
    """
    home = settings.home()
    found = servers.running(home)
    if found is not None:
        _tell("are already up", home, found)
        return
    if foreground:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
        supervise(Home(home.absolute()))
        return
    with Console(stderr=True).status(f"Starting Postgres and Valkey in {escape(str(home))}") as status:
        started = servers.start(home, progress=lambda line: status.update(escape(line.split(" ", 2)[-1])))
    _tell("are up", home, started)


@click.command()
def down() -> None:
    """Stop the embedded Postgres and Valkey; what they store stays."""
    home = settings.home()
    with Console(stderr=True).status(f"Stopping Postgres and Valkey in {escape(str(home))}"):
        stopped = servers.stop(home)
    click.echo(f"Postgres and Valkey have stopped; their data stays in {home}" if stopped else f"not running: {home}")


def _tell(what: str, home: Path, where: servers.LocalServers) -> None:
    place = Home(home)
    click.echo(f"Postgres and Valkey {what}.")
    click.echo(f"  Postgres  {_without_password(where.database_url)}")
    click.echo(f"  Valkey    {_without_password(where.redis_url)}")
    click.echo(f"  passwords {place.record}")
    click.echo(f"  logs      {place.logs}")


def _without_password(url: str) -> str:
    return re.sub(r":[^:@/]+@", ":***@", url)
