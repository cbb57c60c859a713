"""`ddqueue db`: the shape of the database, and copies of what is in it."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from ddqueue import settings
from ddqueue.errors import DdqueueError


@click.group()
def db() -> None:
    """Create, upgrade and check the database's tables; back them up and restore them."""


@db.command()
def upgrade() -> None:
    """Bring the database to this version's tables; does nothing when it is there, or further."""
    from ddqueue.storage import migrate

    before, after = migrate.upgrade(settings.database_url())
    if before != after:
        click.echo(f"the database went from {f'revision {before}' if before else 'empty'} to revision {after}")
    elif after == migrate.head():
        click.echo(f"the database is at revision {after} already")
    else:
        click.echo(f"the database is at revision {after}, newer than this version's {migrate.head()}, and fits it")


@db.command()
def check() -> None:
    """Say whether the database has exactly this version's tables; exit code 1 when not."""
    from ddqueue.domain.compatibility import refusal
    from ddqueue.storage import compatibility, migrate

    database_url = settings.database_url()
    found, newest = migrate.state(database_url), migrate.head()
    why_not = refusal(compatibility.KNOWN, found)
    if why_not is not None:
        raise DdqueueError(why_not)
    if found.revision != newest:
        raise DdqueueError(
            f"the database is at revision {found.revision}, newer than this version's {newest}, and works with it all "
            "the same; to compare its tables, use the ddqueue that upgraded it"
        )
    differing = migrate.differences(database_url)
    if differing:
        raise DdqueueError("\n".join(["the tables differ from this version's:", *differing]))
    click.echo(f"the database is at revision {newest}, and its tables are as they should be")


@db.command()
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE when it is there.")
def backup(file: Path, force: bool) -> None:
    """Write everything in the database to FILE (- = standard output), as pg_dump does; work may go on meanwhile.

    The copy is of one moment, and FILE is there only once it is whole and could be read back. Only its owner can read
    it. pg_dump must be at least as new as the server.
    """
    from ddqueue.cli.postgres_tools import postgres_tools
    from ddqueue.storage.backup import back_up

    with _stand_in(file) as path:
        made = back_up(settings.database_url(), path, postgres_tools(), replace=force)
        if path != file:
            with path.open("rb") as whole:
                shutil.copyfileobj(whole, sys.stdout.buffer)
    size = f"{made.size_bytes / 2**20:.1f} MiB" if made.size_bytes >= 2**20 else f"{made.size_bytes / 2**10:.0f} KiB"
    click.echo(f"wrote {file}: {size}, {made.tables} tables, revision {made.revision}", err=True)
    click.echo(f"to bring it back: ddqueue db restore {file}", err=True)


@db.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--replace", is_flag=True, help="Give up what the database holds now.")
def restore(file: Path, replace: bool) -> None:
    """Bring the database back to what FILE (- = standard input) holds: all of it, or, when anything fails, nothing.

    Stop workers and dispatchers first: while one of them is at work this is refused. Fences and the numbers of attempts
    go on far above those in FILE, so that what a box still holds of a later attempt is not taken for a new one's.
    """
    from ddqueue.cli.postgres_tools import postgres_tools
    from ddqueue.storage.backup import restore as bring_back

    with _stand_in(file) as path:
        if path != file:
            with path.open("wb") as whole:
                shutil.copyfileobj(sys.stdin.buffer, whole)
        made = bring_back(settings.database_url(), path, postgres_tools(), replace=replace)
    click.echo(f"restored {file}: {made.tables} tables, revision {made.revision}")
    if made.older:
        click.echo("its tables are of an older version; now run: ddqueue db upgrade")


@contextlib.contextmanager
def _stand_in(file: Path) -> Iterator[Path]:
    """`file`; for - a private one: a backup is read back before it is passed on, and again before it is used."""
    if str(file) != "-":
        yield file
        return
    with tempfile.TemporaryDirectory(prefix="ddqueue-") as folder:
        yield Path(folder) / "backup"
