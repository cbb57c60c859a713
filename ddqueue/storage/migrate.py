"""The database's shape: bring it to this version, and tell whether it is there."""

from __future__ import annotations

from importlib.resources import files

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from ddqueue.domain.compatibility import SchemaState
from ddqueue.storage.compatibility import require_schema, schema_state
from ddqueue.storage.engine import connect, reaching, transaction
from ddqueue.storage.tables import metadata

STATEMENT_TIMEOUT_S = 120.0


def upgrade(database_url: str) -> tuple[str | None, str]:
    """Run every missing migration; returns the revision before and after. Safe to run twice at once: one waits.

    A database that a newer version has upgraded stays as it is.

    Raises:
        NotReachable: Postgres does not answer, or a running query keeps a table locked for too long.
        SchemaRefused: a newer version has left this one behind.
    """
    sql_engine = connect(database_url, "ddqueue db upgrade", STATEMENT_TIMEOUT_S)
    try:
        # Not one transaction around all: each migration is one of its own.
        with reaching(sql_engine.url), sql_engine.connect() as connection:
            before = _current(connection)
            if before is not None and before > head():
                require_schema(connection)
                return before, before
            connection.rollback()
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            return before, head()
    finally:
        sql_engine.dispose()


def current(database_url: str) -> str | None:
    """The revision that the database is at; None for an empty one. Raises NotReachable."""
    sql_engine = connect(database_url, "ddqueue")
    try:
        with transaction(sql_engine) as connection:
            return _current(connection)
    finally:
        sql_engine.dispose()


def state(database_url: str) -> SchemaState:
    """Where the database is, and how old a program may be that works with it. Raises NotReachable."""
    sql_engine = connect(database_url, "ddqueue db check")
    try:
        return schema_state(sql_engine)
    finally:
        sql_engine.dispose()


def head() -> str:
    """The newest revision that this version knows."""
    newest = ScriptDirectory.from_config(_config()).get_current_head()
    if newest is None:
        raise RuntimeError("this installation lacks its migrations")
    return newest


def differences(database_url: str) -> list[str]:
    """How the database's tables differ from this version's, one line each; empty when they are equal."""
    sql_engine = connect(database_url, "ddqueue db check")
    try:
        with transaction(sql_engine) as connection:
            context = MigrationContext.configure(connection, opts={"compare_server_default": True})
            return [str(difference) for difference in compare_metadata(context, metadata)]
    finally:
        sql_engine.dispose()


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _config() -> Config:
    """Alembic's settings, built here so that there is no file of settings to find, and no URL in one."""
    config = Config()
    config.set_main_option("script_location", str(files("migrations")).replace("%", "%%"))
    return config
