"""The migrations produce exactly the tables that the code works with, and run once however often they are asked to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, text

from ddqueue.errors import NotReachable
from ddqueue.storage import migrate
from ddqueue.storage.engine import connect, transaction
from ddqueue.storage.statements import CURRENT_DEFINITIONS, definition
from ddqueue.storage.tables import metadata

# Alembic compares columns and indexes; Postgres's own catalogue has the rest: checks, keys, comments, views, triggers.
CATALOGUE = {
    "columns": """
        SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' '
               || coalesce(column_default, '') || ' ' || is_identity
        FROM information_schema.columns WHERE table_schema = 'public'""",
    "constraints": """
        SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace""",
    "indexes": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "comments": """
        SELECT c.relname || '.' || coalesce(a.attname, '') || ' ' || d.description
        FROM pg_description AS d
        JOIN pg_class AS c ON c.oid = d.objoid AND c.relnamespace = 'public'::regnamespace
        LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = d.objsubid AND d.objsubid > 0""",
    "views": "SELECT viewname || ' ' || definition FROM pg_views WHERE schemaname = 'public'",
    "functions": "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
    "triggers": "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "sequences": "SELECT sequencename || ' ' || increment_by FROM pg_sequences WHERE schemaname = 'public'",
}


@pytest.fixture
def empty(empty_database_url: str) -> Iterator[Engine]:
    sql_engine = connect(empty_database_url, "test")
    yield sql_engine
    sql_engine.dispose()


def test_migrations_equal_the_models(empty: Engine, database_url: str) -> None:
    with transaction(empty) as connection:
        metadata.create_all(connection)
        for name in CURRENT_DEFINITIONS:
            _run(connection, definition(name))
    migrated = connect(database_url, "test")
    try:
        assert _catalogue(migrated) == _catalogue(empty)
    finally:
        migrated.dispose()
    assert migrate.differences(database_url) == []


def test_a_difference_is_found(database_url: str) -> None:
    sql_engine = connect(database_url, "test")
    with transaction(sql_engine) as connection:
        connection.execute(text("ALTER TABLE jobs DROP COLUMN evidence CASCADE"))
    sql_engine.dispose()
    (difference,) = migrate.differences(database_url)
    assert "evidence" in difference


def test_upgrading_runs_once(empty_database_url: str) -> None:
    assert migrate.current(empty_database_url) is None
    assert migrate.upgrade(empty_database_url) == (None, migrate.head())
    assert migrate.upgrade(empty_database_url) == (migrate.head(), migrate.head())
    assert migrate.current(empty_database_url) == migrate.head()


def test_upgrades_at_once_do_not_disturb_each_other(empty_database_url: str) -> None:
    # Processes, as in life: alembic keeps its context in the process.
    ask = "import sys; from ddqueue.storage import migrate; migrate.upgrade(sys.argv[1])"
    upgrades = [subprocess.Popen([sys.executable, "-c", ask, empty_database_url]) for _ in range(3)]
    assert [upgrade.wait(timeout=120) for upgrade in upgrades] == [0, 0, 0]
    assert migrate.current(empty_database_url) == migrate.head()
    assert migrate.differences(empty_database_url) == []


def test_a_failing_migration_leaves_nothing_behind(empty: Engine, empty_database_url: str) -> None:
    with transaction(empty) as connection:
        connection.execute(text("CREATE VIEW results AS SELECT 1 AS one"))
    with pytest.raises(Exception, match="already exists"):
        migrate.upgrade(empty_database_url)
    with transaction(empty) as connection:
        names = connection.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).scalars().all()
        assert [name for name in names if name != "alembic_version"] == []
        connection.execute(text("DROP VIEW results"))
    assert migrate.upgrade(empty_database_url) == (None, migrate.head())


def test_a_table_in_use_makes_the_upgrade_give_up(empty: Engine, empty_database_url: str) -> None:
    with transaction(empty) as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)"))
    with empty.connect() as holder:
        holder.execute(text("LOCK TABLE alembic_version IN SHARE MODE"))
        with pytest.raises(NotReachable, match="lock timeout"):
            migrate.upgrade(empty_database_url)
    assert migrate.upgrade(empty_database_url)[1] == migrate.head()


def _catalogue(sql_engine: Engine) -> dict[str, list[str]]:
    with transaction(sql_engine) as connection:
        return {
            what: sorted(
                str(row) for row in connection.execute(text(query)).scalars() if "alembic_version" not in str(row)
            )
            for what, query in CATALOGUE.items()
        }


def _run(connection: Connection, script: str) -> None:
    connection.execution_options(no_parameters=True).exec_driver_sql(script)
