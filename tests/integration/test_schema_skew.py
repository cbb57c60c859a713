"""Programs of one version and tables of another: what is only expanded serves on, what has been contracted is refused
in one line, and a job that waits there is left unharmed."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from installation import Installation, sweep_text
from sqlalchemy import text

from ddqueue import __version__
from ddqueue.domain.compatibility import SchemaState, refusal
from ddqueue.errors import SchemaRefused
from ddqueue.storage import compatibility, migrate
from ddqueue.storage.engine import connect, transaction

HOST = "sim-rtx6000"
MIGRATIONS = Path(__file__).parents[2] / "migrations" / "versions"

EXPANDED = """
    ALTER TABLE jobs ADD COLUMN from_9999 TEXT DEFAULT 'new' NOT NULL;
    CREATE TABLE table_of_9999 (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
    UPDATE alembic_version SET version_num = '9999';
"""
"""What a later migration does that only expands: new columns have defaults, what was there stays."""

CONTRACTED = "UPDATE schema_compatibility SET oldest_supported = '9999'"
"""What a contracting one does besides, in the same transaction."""

TOO_OLD = (
    "this ddqueue is too old for the database: it knows tables up to 0001, they are at 9999 and no longer serve "
    "versions before 9999; install a newer ddqueue here"
)


@pytest.fixture
def installation(tmp_path: Path, database_url: str, redis_url: str) -> Installation:
    return Installation(tmp_path / "home", database_url, redis_url)


def change(database_url: str, *scripts: str) -> None:
    sql_engine = connect(database_url, "test")
    with transaction(sql_engine) as connection:
        for script in scripts:
            connection.execution_options(no_parameters=True).exec_driver_sql(script)
    sql_engine.dispose()


@pytest.mark.parametrize(
    ("known", "revision", "oldest", "refused"),
    [
        ("0002", "0002", "0001", None),
        ("0002", "0009", "0002", None),
        ("0002", "0001", "0001", "the database's tables are at 0001, this version needs 0002; run: ddqueue db upgrade"),
        ("0002", None, None, "the database's tables are at nothing, this version needs 0002; run: ddqueue db upgrade"),
        (
            "0002",
            "0009",
            "0003",
            "this ddqueue is too old for the database: it knows tables up to 0002, they are at 0009",
        ),
    ],
)
def test_the_rule(known: str, revision: str | None, oldest: str | None, refused: str | None) -> None:
    said = refusal(known, SchemaState(revision, oldest))
    assert said is None if refused is None else (said or "").startswith(refused)


def test_the_newest_known_revision_is_written_down_rightly() -> None:
    assert migrate.head() == compatibility.KNOWN


def test_revisions_compare_as_text() -> None:
    revisions = [re.search(r'^revision = "(.+)"$', file.read_text(), re.M) for file in sorted(MIGRATIONS.glob("*.py"))]
    assert [found and found[1] for found in revisions] == [f"{number:04}" for number in range(1, len(revisions) + 1)]


CONTRACTING = re.compile(
    r"\b(DROP|RENAME|SET NOT NULL|ADD CONSTRAINT|ALTER COLUMN \w+ (SET DATA )?TYPE)\b|op\.(drop|rename|alter)_", re.I
)
MARKS = re.compile(r"UPDATE schema_compatibility SET oldest_supported = '\d{4}'")


def unmarked(migration: str) -> bool:
    """Whether a migration takes something away and leaves the mark as it was."""
    return bool(CONTRACTING.search(migration)) and not MARKS.search(migration)


def test_a_migration_that_contracts_raises_the_mark() -> None:
    """A view or a constraint that is only replaced looks the same here: then say why in this test."""
    assert not unmarked("ALTER TABLE jobs ADD COLUMN note TEXT; CREATE VIEW results_v2 AS SELECT 1")
    assert unmarked("ALTER TABLE jobs DROP COLUMN note")
    assert unmarked("ALTER TABLE jobs ALTER COLUMN note SET NOT NULL")
    assert unmarked('op.drop_column("jobs", "note")')
    assert not unmarked(f"ALTER TABLE jobs RENAME note TO remark; {CONTRACTED}")
    for file in sorted(MIGRATIONS.glob("*.py"))[1:]:
        number = file.name[:4]
        scripts = [file, *(MIGRATIONS.parent / "sql").glob(f"{number}_*.sql")]
        assert not unmarked("\n".join(script.read_text() for script in scripts)), file.name


def test_an_empty_database_and_one_without_a_mark_are_refused(empty_database_url: str) -> None:
    sql_engine = connect(empty_database_url, "test")
    with pytest.raises(SchemaRefused, match=r"are at nothing.*ddqueue db upgrade"):
        compatibility.check_schema(sql_engine)
    change(empty_database_url, "CREATE TABLE alembic_version (version_num TEXT)")
    with pytest.raises(SchemaRefused, match="ddqueue db upgrade"):
        compatibility.check_schema(sql_engine)
    sql_engine.dispose()


def test_the_mark_is_one_row_of_four_digits(database_url: str) -> None:
    for statement in (
        "INSERT INTO schema_compatibility (oldest_supported) VALUES ('0001')",
        "INSERT INTO schema_compatibility (only_row, oldest_supported) VALUES (false, '0001')",
        "UPDATE schema_compatibility SET oldest_supported = '1'",
    ):
        with pytest.raises(Exception, match="schema_compatibility_"):
            change(database_url, statement)


def test_an_expanded_schema_lets_an_old_installation_work_on(installation: Installation, database_url: str) -> None:
    installation.start_all(HOST)
    try:
        first = installation.submit(sweep_text("before"))
        assert [job["state"] for job in installation.wait_final(first)] == ["succeeded"]
        change(database_url, EXPANDED)
        # The processes that were there, and ones that start now.
        second = installation.submit(sweep_text("after"))
        assert [job["state"] for job in installation.wait_final(second)] == ["succeeded"]
        worker = installation.start("worker", "--host", "sim-b300")
        third = installation.submit(sweep_text("another", hosts=["sim-b300"]))
        assert [job["state"] for job in installation.wait_final(third)] == ["succeeded"]
        assert worker.poll() is None
    finally:
        installation.stop()
    said = "the database is at revision 9999, newer than this version's 0001"
    assert installation.run("db", "upgrade").stdout.startswith(said)
    assert said in installation.run("db", "check", code=1).stderr


def test_a_running_worker_that_was_left_behind_stops_and_its_job_waits_unharmed(
    installation: Installation, database_url: str
) -> None:
    worker = installation.start("worker", "--host", HOST)
    try:
        installation.start("dispatcher")
        first = installation.submit(sweep_text("before"))
        installation.wait_final(first)
        # Queued before, since an old `ddqueue submit` is refused too; no dispatcher wakes the worker for it yet.
        installation.run("hold", HOST, "--reason", "the schema changes")
        second = installation.submit(sweep_text("after"))
        # The dispatcher would end first: this one only wakes, as one of the new version does.
        change(database_url, EXPANDED, CONTRACTED)
        wake(installation, second)
        assert worker.wait(120) == 2
    finally:
        installation.stop()
    log = next(installation.home.glob("worker-host-*.log")).read_text()
    assert f"gpu@{HOST} stops: {TOO_OLD}" in log
    (job,) = installation.jobs(second)
    assert (job["state"], job["tries"]) == ("queued", 0)
    assert installation.show(job["job_id"])["attempts"] == []
    assert installation.host(HOST)["quarantined_at"] is None


def wake(installation: Installation, sweep: str) -> None:
    from ddqueue.domain.queueing import NextJob
    from ddqueue.queue.app import make_app
    from ddqueue.queue.wakeups import CeleryWakeups

    (job,) = installation.jobs(sweep)
    app = make_app(installation.environment["DDQUEUE_REDIS_URL"])
    CeleryWakeups(app).wake(NextJob(job["job_id"], HOST, sweep, "kimi-k2.6", job["label"], job["parallel"]))


@pytest.mark.parametrize(
    "words", [("worker", "--host", HOST), ("dispatcher",), ("db", "upgrade"), ("submit", "sweep.yaml")]
)
def test_a_program_that_was_left_behind_refuses_in_one_line(
    installation: Installation, database_url: str, words: tuple[str, ...]
) -> None:
    (installation.home / "sweep.yaml").write_text(sweep_text("late"))
    change(database_url, EXPANDED, CONTRACTED)
    refused = installation.run(*words, code=2)
    assert refused.stderr.strip().splitlines()[-1] == f"ddqueue: {TOO_OLD}"
    assert "Traceback" not in refused.stderr


def test_a_dispatcher_that_was_left_behind_while_it_ran_ends(installation: Installation, database_url: str) -> None:
    dispatcher = installation.start("dispatcher")
    try:
        sql_engine = connect(database_url, "test")
        for _ in range(600):
            with transaction(sql_engine) as connection:
                if connection.execute(text("SELECT count(*) FROM dispatchers")).scalar_one():
                    break
            time.sleep(0.1)
        sql_engine.dispose()
        change(database_url, EXPANDED, CONTRACTED)
        assert dispatcher.wait(120) == 2
    finally:
        installation.stop()
    assert TOO_OLD in next(installation.home.glob("dispatcher-*.log")).read_text()


def test_a_database_that_is_behind_names_the_command(installation: Installation, empty_database_url: str) -> None:
    installation.set("DDQUEUE_DATABASE_URL", empty_database_url)
    refused = installation.run("worker", "--host", HOST, code=2)
    assert refused.stderr.endswith("are at nothing, this version needs 0001; run: ddqueue db upgrade\n")


def test_hosts_show_versions_and_who_differs(installation: Installation, database_url: str) -> None:
    installation.start_all(HOST)
    try:
        sweep = installation.submit(sweep_text("first"))
        installation.wait_final(sweep)
        listed = installation.json("hosts")
        assert [(row["name"], row["worker_version"], row["version_differs"]) for row in listed["hosts"]] == [
            (HOST, __version__, False)
        ]
        assert (listed["expected_version"], len(listed["dispatchers"])) == (__version__, 1)
        assert "(!)" not in installation.run("hosts").stdout
        change(
            database_url,
            'UPDATE hosts SET worker_version = \'0.0.9\', borrow = \'{"hours": "22:00-05:50", "idle_s": 60}\'',
        )
        said = installation.run("hosts").stdout
        assert "0.0.9 (!)" in said
        assert f"(!) {HOST} runs ddqueue 0.0.9, seen " in said
        assert f"; the dispatcher on {listed['dispatchers'][0]['name']}: {__version__}" in said
        assert f"{HOST} is borrowed within 22:00-05:50 by its own clock: production has it now" in said
        change(database_url, "UPDATE hosts SET loan_state = 'taken', borrowed_since = '2026-01-02 03:04:05+00'")
        assert ": taken, out of production since 2026-01-02 03:04:05" in installation.run("hosts").stdout
        assert installation.json("hosts")["hosts"][0]["version_differs"] is True
    finally:
        installation.stop()
