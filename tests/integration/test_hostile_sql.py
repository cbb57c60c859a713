"""`ddqueue sql` writes nothing, also as a superuser: no row and no file; it starts no program and ends no session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from ddqueue.errors import DdqueueError, UsageError
from ddqueue.storage.asking import ask

INSERT = "INSERT INTO hosts (name, gpus, gpu_kind, interconnect, simulated) VALUES ('evil', 1, 'x', 'pcie', true)"

WRITES = [
    INSERT,
    f"{INSERT} RETURNING name",
    f"WITH made AS ({INSERT} RETURNING name) SELECT * FROM made",
    "UPDATE hosts SET name = 'evil'",
    "DELETE FROM hosts",
    "TRUNCATE hosts CASCADE",
    "MERGE INTO hosts USING (SELECT 'evil' AS n) AS s ON name = n WHEN NOT MATCHED THEN INSERT (name) VALUES (n)",
    "CREATE TABLE evil (a int)",
    "CREATE TEMP TABLE evil (a int)",
    "SELECT 1 AS a INTO evil",
    "CREATE FUNCTION evil() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "ALTER SYSTEM SET work_mem = '1MB'",
    "GRANT ALL ON hosts TO PUBLIC",
    "REFRESH MATERIALIZED VIEW results",
    "LOCK TABLE hosts IN ACCESS EXCLUSIVE MODE",
    "SELECT * FROM hosts FOR UPDATE",
    "EXPLAIN ANALYZE " + INSERT,
    f"PREPARE evil AS {INSERT}",
    f"COMMIT; {INSERT}",
    f"ROLLBACK; {INSERT}",
    f"END; BEGIN READ WRITE; {INSERT}",
    f"SELECT 1; {INSERT}",
    f"SET TRANSACTION READ WRITE; {INSERT}",
    "SET TRANSACTION READ WRITE",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "SET ROLE NONE",
    "BEGIN READ WRITE",
    "SELECT set_config('transaction_read_only', 'off', true)",
    f"DO $$ BEGIN COMMIT; {INSERT}; END $$",
    f"/* a /*nested*/ comment */ DO $$ BEGIN {INSERT}; END $$",
    f"DO $$ BEGIN SET TRANSACTION READ WRITE; {INSERT}; END $$",
    "CALL evil()",
    "LOAD 'auto_explain'",
    "SELECT nextval('fence')",
    "SELECT setval('fence', 1)",
    "SELECT lo_create(0)",
    "SELECT lo_from_bytea(0, 'evil')",
    "SELECT lo_import('/etc/hostname')",
    "SELECT pg_read_file('/etc/hostname')",
    "SELECT pg_ls_dir('/')",
    "SELECT pg_reload_conf()",
    "SELECT pg_switch_wal()",
    "SELECT pg_create_restore_point('evil')",
    "SELECT pg_promote()",
    "SELECT pg_stat_reset()",
    "SELECT dblink_exec('', 'SELECT 1')",
    "SELECT query_to_xml('DELETE FROM hosts', true, true, '')",
    "SELECT currval('fence')",
    "VACUUM",
    "NOTIFY ddqueue",
    "LISTEN ddqueue",
]


@pytest.fixture
def admin(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO hosts (name, gpus, gpu_kind, interconnect, simulated) VALUES ('mine', 1, 'x', 'pcie', true)"
        )
        yield connection


def state(admin: psycopg.Connection) -> list[tuple[object, ...]]:
    """What a write would change."""
    return [
        *admin.execute("SELECT name FROM hosts ORDER BY name"),
        *admin.execute("SELECT last_value, is_called FROM fence"),
        *admin.execute("SELECT count(*) FROM pg_class WHERE relnamespace <> pg_my_temp_schema()"),
        *admin.execute("SELECT count(*) FROM pg_proc"),
        *admin.execute("SELECT count(*) FROM pg_largeobject_metadata"),
        *admin.execute("SELECT relacl::text FROM pg_class WHERE relname = 'hosts'"),
    ]


def test_every_way_to_write_is_refused_in_one_line(database_url: str, admin: psycopg.Connection) -> None:
    before = state(admin)
    for query in WRITES:
        with pytest.raises(DdqueueError) as refused:
            ask(database_url, query, 10)
        assert "\n" not in str(refused.value), query
        assert isinstance(refused.value, UsageError), query
        assert state(admin) == before, query


@pytest.mark.parametrize("lead", ["", "-- a remark\n", "/* a remark */ ", ";\n"])
def test_no_file_is_written_and_no_program_started(database_url: str, open_folder: Path, lead: str) -> None:
    trace = open_folder / "trace"
    for query in (
        f"COPY (SELECT 1) TO PROGRAM 'cat > {trace}'",
        f"COPY (SELECT 1) TO '{trace}'",
        f"DO $$ BEGIN COPY (SELECT 1) TO PROGRAM 'cat > {trace}'; END $$",
        f"SELECT lo_export(1, '{trace}')",
        f"SELECT set_config('role', 'none', true), lo_export(1, '{trace}')",
    ):
        with pytest.raises(UsageError):
            ask(database_url, lead + query, 10)
    assert not trace.exists()


def test_nobody_is_disturbed(database_url: str, admin: psycopg.Connection) -> None:
    (pid,) = admin.execute("SELECT pg_backend_pid()").fetchone() or (0,)
    admin.execute("LISTEN ddqueue")
    for function in ("pg_terminate_backend", "pg_cancel_backend"):
        with pytest.raises(UsageError, match="only reads"):
            ask(database_url, f"SELECT {function}({pid})", 10)
    # Both are allowed by Postgres, and both end with the question: nothing is committed and the session is closed.
    assert ask(database_url, "SELECT pg_notify('ddqueue', 'evil')", 10).rows == (("",),)
    assert ask(database_url, "SELECT pg_try_advisory_lock(7)", 10).rows == ((True,),)
    assert list(admin.notifies(timeout=0.3, stop_after=1)) == []
    # The server ends a session a moment after its client has gone.
    assert admin.execute("SELECT pg_advisory_lock(7)").fetchone() == ("",)


def test_an_ordinary_role_reads_and_does_not_write(database_url: str, admin: psycopg.Connection) -> None:
    """One that may not take the reading role: its own rights and the read-only transaction must do."""
    role = "ddqueue_hostile_reader"
    name = sql.Identifier(role)
    admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'hunter2'").format(name))
    try:
        admin.execute(sql.SQL("GRANT ALL ON ALL TABLES IN SCHEMA public TO {}").format(name))
        scheme, _, rest = database_url.partition("://")
        url = f"{scheme}://{role}:hunter2@{rest.partition('@')[2]}"
        assert ask(url, "SELECT name, current_user::text FROM hosts", 10).rows == (("mine", role),)
        with pytest.raises(UsageError, match="cannot execute INSERT in a read-only transaction"):
            ask(url, INSERT, 10)
    finally:
        admin.execute(sql.SQL("DROP OWNED BY {}").format(name))
        admin.execute(sql.SQL("DROP ROLE {}").format(name))
