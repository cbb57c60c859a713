"""`ddqueue db`: the shape of the database."""

from __future__ import annotations

import click

from ddqueue import settings
from ddqueue.errors import DdqueueError
from ddqueue.storage import migrate


@click.group()
def db() -> None:
    """Create, upgrade and check the database's tables."""


@db.command()
def upgrade() -> None:
    """Bring the database to this version's tables; does nothing when it is there."""
    before, after = migrate.upgrade(settings.database_url())
    if before == after:
        click.echo(f"the database is at revision {after} already")
    else:
        click.echo(f"the database went from {f'revision {before}' if before else 'empty'} to revision {after}")


@db.command()
def check() -> None:
    """Say whether the database has exactly this version's tables; exit code 1 when not."""
    database_url = settings.database_url()
    at, newest = migrate.current(database_url), migrate.head()
    if at != newest:
        raise DdqueueError(f"the database is at revision {at or 'none'}, not {newest}: run `ddqueue db upgrade`")
    differing = migrate.differences(database_url)
    if differing:
        raise DdqueueError("\n".join(["the tables differ from this version's:", *differing]))
    click.echo(f"the database is at revision {newest}, and its tables are as they should be")
