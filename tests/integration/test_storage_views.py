"""The views give what the domain's functions give of the same repeats, and read no more than they are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from known_sweep import (
    B4,
    B8,
    B16,
    CROWD,
    PCIE,
    SHORT,
    Row,
    acceptance,
    known_sweep,
    point_of,
    rows,
    step_ms,
    stored_known_sweep,
    tok_s,
    visits,
)
from sqlalchemy import Engine
from storage_world import World, a_measurement

from ddqueue.domain.failures import POLICIES
from ddqueue.domain.marks import Mark
from ddqueue.domain.pooling import over_visits
from ddqueue.domain.statistics import LOOKING_COSTS, mean_interval
from ddqueue.domain.student import t_quantile
from ddqueue.domain.sweep import Measure, Repeats
from ddqueue.storage.engine import transaction

SWEEP = "sweep = 'ddtree-block8'"


@pytest.fixture
def known(database_url: str) -> Iterator[Engine]:
    with stored_known_sweep(database_url) as sql_engine:
        yield sql_engine


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    made = World(database_url)
    yield made
    made.sql_engine.dispose()


def test_students_t_is_the_real_one(known: Engine) -> None:
    freedoms = [1, 1.3, 1.5, 2, 2.7, 3, 4, 5.5, 9, 17.25, 30, 120, 10_000]
    given = rows(known, f"SELECT t_975(f) AS t FROM unnest(ARRAY{freedoms}::double precision[]) AS f")
    assert [row["t"] for row in given] == [pytest.approx(t_quantile(0.975, f), rel=1e-5) for f in freedoms]
    assert rows(known, "SELECT t_975(0) AS none, t_975(0.9) AS few, t_975(NULL) AS null") == [
        {"none": None, "few": None, "null": None}
    ]


def test_repeats_that_could_stop_themselves_cost_the_same_here_and_there(known: Engine) -> None:
    asked = [Measure((SHORT,), repeats).to_json() for repeats in (Repeats(3, 10), Repeats(3, 3))]
    given = [rows(known, f"SELECT looking_costs('{json.dumps(one)}') AS factor")[0]["factor"] for one in (*asked, {})]
    assert given == [LOOKING_COSTS, 1.0, 1.0]


def test_goodput_is_null_without_limits(known: Engine) -> None:
    assert rows(known, "SELECT count(goodput_requests_s) AS n FROM points") == [{"n": 0}]


def test_goodput_is_the_mean_over_repeats_and_visits(world: World) -> None:
    world.submit()
    claim = world.claim(world.jobs()[0])
    for repeat, requests_s in enumerate((1.0, 0.0), start=1):
        tok_s = 20 * requests_s
        limited = replace(a_measurement(repeat=repeat), goodput_requests_s=requests_s, goodput_output_tok_s=tok_s)
        world.attempts.record_measurement(claim, limited)
    world.succeed(claim)
    for view in ("points", "cell_points"):
        (row,) = rows(world.sql_engine, f"SELECT goodput_requests_s, goodput_output_tok_s FROM {view}")
        assert row == {"goodput_requests_s": 0.5, "goodput_output_tok_s": 10.0}
    query = "SELECT points -> 0 -> 'goodput_requests_s' AS it FROM results WHERE points IS NOT NULL"
    assert rows(world.sql_engine, query) == [{"it": 0.5}]


def test_points_have_the_interval_of_their_repeats(known: Engine) -> None:
    given = rows(known, f"SELECT * FROM points WHERE {SWEEP} ORDER BY job_id, concurrency, context_tokens")
    assert len(given) == 13 * 3
    for row in given:
        expected = visits(row["host"], row["label"], point_of(row))[row["visit"] - 1]
        interval = mean_interval(expected, repeats=known_sweep().measure.repeats)
        assert interval is not None
        assert row["values_tok_s"] == pytest.approx(expected)
        assert (row["mean_tok_s"], row["low_tok_s"], row["high_tok_s"]) == pytest.approx(
            (interval.mean, interval.low, interval.high), rel=1e-6
        )
        step, accepted = step_ms(row["host"], row["label"], point_of(row)), acceptance(row["host"], row["label"])
        assert (row["step_time_ms"], row["itl_ms"], row["tpot_ms"]) == pytest.approx((step, *[step / accepted] * 2))
        assert row["acceptance_length"] == (None if row["baseline"] else pytest.approx(accepted))
        assert row["ttft_ms"] == pytest.approx(10 + row["context_tokens"] / 10)
        assert row["energy_per_token_j"] == pytest.approx(4000 / tok_s(row["host"], row["label"], point_of(row)))


def test_points_say_what_was_left_out_and_what_to_know(known: Engine) -> None:
    given = rows(known, f"SELECT * FROM points WHERE {SWEEP} AND (n_invalid > 0 OR marks <> '{{}}')")
    assert [
        (row["label"], point_of(row), row["n"], row["n_invalid"], row["reasons"], row["marks"]) for row in given
    ] == [
        (B4, SHORT, 3, 1, ["SHORT_OUTPUT"], []),
        (B8, CROWD, 3, 0, [], ["POWER_CAPPED"]),
    ]


def test_a_single_repeat_has_no_interval_and_marks_are_said_once(world: World) -> None:
    world.submit()
    first, second = world.jobs()[:2]
    claim = world.claim(first)
    world.attempts.record_measurement(claim, a_measurement(marks=(Mark.THROTTLED, Mark.CLOCK_DRIFT)))
    world.succeed(claim)
    claim = world.claim(second)
    for repeat in (1, 2):
        marked = a_measurement(repeat=repeat, tok_s=100.0, marks=(Mark.THROTTLED,))
        world.attempts.record_measurement(claim, marked)
    world.succeed(claim)
    single, equal = rows(world.sql_engine, "SELECT * FROM points ORDER BY job_id")
    assert (single["n"], single["sd_tok_s"], single["low_tok_s"]) == (1, None, None)
    assert (single["marks"], equal["marks"]) == (["CLOCK_DRIFT", "THROTTLED"], ["THROTTLED"])
    assert (equal["low_tok_s"], equal["high_tok_s"]) == (100.0, 100.0)
    assert {row["simulated"] for row in (single, equal)} == {True}


def test_a_cell_is_pooled_over_visits_from_three_on(known: Engine) -> None:
    given = rows(known, f"SELECT * FROM cell_points WHERE {SWEEP}")
    assert len(given) == 9 * 3
    for row in given:
        expected = visits(row["host"], row["label"], point_of(row))
        interval = over_visits(expected, known_sweep().measure.repeats)
        assert interval is not None
        assert (row["visits"], row["n"], row["interval_n"]) == (len(expected), 3 * len(expected), 3)
        assert (row["mean_tok_s"], row["low_tok_s"], row["high_tok_s"]) == pytest.approx(
            (interval.mean, interval.low, interval.high), rel=1e-6
        )


def test_two_visits_are_pooled_over_their_repeats(world: World) -> None:
    sweep = replace(known_sweep(), hosts=(PCIE.name,), measure=Measure((SHORT,), visits=2))
    world.submit(replace(sweep, cells=sweep.cells[1:2]), hosts=[PCIE])
    measured = ([100.0, 103.0, 99.0], [108.0, 111.0])
    for job_id, visit in zip(world.jobs(), measured, strict=True):
        claim = world.claim(job_id)
        for repeat, value in enumerate(visit, start=1):
            world.attempts.record_measurement(claim, a_measurement(SHORT, repeat, value))
        world.succeed(claim)
    (row,) = rows(world.sql_engine, "SELECT * FROM cell_points")
    interval = over_visits(measured, sweep.measure.repeats)
    assert interval is not None
    assert (row["visits"], row["n"], row["interval_n"]) == (2, 5, 5)
    assert (row["mean_tok_s"], row["low_tok_s"], row["high_tok_s"]) == pytest.approx(
        (interval.mean, interval.low, interval.high), rel=1e-6
    )
    assert (row["sd_acceptance_length"], row["sd_step_time_ms"]) == (0.0, 0.0)


def test_failures_say_class_scope_remedy_and_how_often(known: Engine) -> None:
    given = rows(known, f"SELECT * FROM failures WHERE {SWEEP} ORDER BY host, attempt, failure")
    assert [(row["host"], row["label"], row["attempt"], row["failure"], row["job_state"]) for row in given] == [
        ("b300", B16, 1, "NCCL_HANG", "succeeded"),
        ("b300", B4, 1, "OOM_CAPTURE", "failed"),
        ("rtx6000", B8, 1, "LEASE_LOST", "succeeded"),
    ]
    assert [row["evidence"] for row in given] == [
        "rank 3 did not join",
        "out of memory: 2.00 GiB",
        "the attempt's process is gone",
    ]
    assert {row["lasted_s"] for row in given} == {480.0}
    assert {row["times"] for row in given} == {1}


def test_the_classes_of_failures_are_the_domains(known: Engine) -> None:
    given = rows(known, "SELECT * FROM failure_classes")
    assert [(row["failure"], row["scope"], row["tries"], row["remedy"]) for row in given] == [
        (failure, policy.scope, policy.tries, policy.remedy) for failure, policy in POLICIES.items()
    ]


def test_the_timeline_marks_what_lies_within_and_counts_each_gap_once(known: Engine) -> None:
    given = rows(known, "SELECT * FROM timeline WHERE host = 'rtx6000' ORDER BY attempt_started_at, seq")
    attempts = {row["attempt_started_at"] for row in given}
    assert len(attempts) == 9
    assert [row["idle_before_s"] for row in given if row["idle_before_s"] is not None] == [120.0] * 8
    (lost,) = [row for row in given if row["attempt_outcome"] == "lost"]
    assert (lost["phase"], lost["idle_before_s"]) == (None, 120.0)
    first = [row for row in given if row["attempt_started_at"] == min(attempts)]
    assert [row["phase"] for row in first] == [
        "launch",
        "ready",
        "load weights",
        "capture graphs",
        *["measure"] * 9,
        "stop",
    ]
    assert [row["phase"] for row in first if row["within"] == "ready"] == ["load weights", "capture graphs"]
    assert sum(row["duration_s"] for row in first if row["within"] is None) == pytest.approx(1 + 60 + 9 * 40 + 5)


def test_views_say_what_they_are_and_whether_they_are_simulated(known: Engine) -> None:
    bare = """
        SELECT c.relname AS view FROM pg_class AS c
        WHERE c.relkind = 'v' AND c.relnamespace = 'public'::regnamespace AND obj_description(c.oid) IS NULL"""
    assert rows(known, bare) == []
    numbers = """
        SELECT c.relname || '.' || a.attname AS number
        FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
        WHERE c.relkind = 'v' AND c.relnamespace = 'public'::regnamespace AND a.attnum > 0
          AND a.atttypid IN ('float8'::regtype, 'numeric'::regtype, '_float8'::regtype)
          AND col_description(c.oid, a.attnum) IS NULL"""
    assert rows(known, numbers) == []
    columns = """
        SELECT c.relname AS view, array_agg(a.attname::text) AS columns
        FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
        WHERE c.relkind = 'v' AND c.relnamespace = 'public'::regnamespace AND a.attnum > 0 GROUP BY 1"""
    for row in rows(known, columns):
        if row["view"] != "failure_classes":
            assert {"sweep", "revision", "simulated"} <= set(row["columns"]), row["view"]


MANY_SWEEPS = """
INSERT INTO hosts (name, gpus, gpu_kind, simulated)
SELECT 'host-' || n, 8, 'B300', true FROM generate_series(0, 89) AS n;
INSERT INTO sweeps (name, revision, model, engine, out_of_distribution, simulated, file_name, file_text, measure)
SELECT 'sweep-' || n, 1, 'kimi', 'sim', 'refuse', true, '', '', '{}' FROM generate_series(1, 90) AS n;
INSERT INTO cells (sweep_id, hash, position, label, canonical, baseline, out_of_distribution)
SELECT s.id, 'cell-' || n, n, 'cell-' || n, '{}', n = 0, false FROM sweeps AS s, generate_series(0, 3) AS n;
INSERT INTO jobs (sweep_id, cell_hash, host, parallel, tp, ep, pp, dp, position, state, finished_at)
SELECT s.id, c.hash, 'host-' || (s.id + b) % 90, 'TP8', 8, 1, 1, 1, c.position, 'succeeded', now()
FROM sweeps AS s JOIN cells AS c ON c.sweep_id = s.id, generate_series(0, 1) AS b;
INSERT INTO attempts (job_id, number, fence, host, ended_at, outcome, runner_pid, runner_start_ticks, worker, simulated)
SELECT id, 1, nextval('fence'), host, now(), 'succeeded', 1, 1, 'gpu', true FROM jobs ORDER BY id;
INSERT INTO phases (attempt_id, seq, name, started_at, duration_s, detail)
SELECT a.id, n, 'measure', a.started_at + n * interval '1 s', 1, ''
FROM attempts AS a, generate_series(1, 20) AS n ORDER BY a.id, n;
INSERT INTO answers (attempt_id, suite, suite_digest, problem, concurrency, sample, asked_at, duration_s, simulated)
SELECT a.id, 'core5', '', 'p' || n, 1, 0, now(), 1, true
FROM attempts AS a, generate_series(1, 20) AS n ORDER BY a.id, n;
INSERT INTO measurements (
    attempt_id, concurrency, context_tokens, output_tokens_asked, repeat, started_at, wall_s, requests_completed,
    requests_failed, prompt_tokens, output_tokens, output_throughput_tok_s, itl_mean_ms, step_time_ms,
    acceptance_length, verifies, correct_drafts, draft_histogram, valid, reasons, marks, client, simulated
)
SELECT a.id, c, 60, 256, n, now(), 1, 1, 0, 60, 256, 100 + n, 5, 5, 2, 10, 10, '{5,5}', true, '{}', '{}', '{}', true
FROM attempts AS a, generate_series(1, 4) AS c, generate_series(1, 5) AS n ORDER BY a.id, c, n;
ANALYZE;
"""
"""90 sweeps on two hosts each, of which a filter picks one sweep or the jobs of one host."""

LARGE = {"measurements": 20, "phases": 20, "answers": 20}
"""The tables that grow with every attempt, with their rows in each of these attempts."""

TWICE = 2
"""Views that hold a cell against another one read the points of both."""


@pytest.mark.parametrize(("condition", "jobs"), [("sweep = 'sweep-45'", 8), ("host = 'host-7'", 8)])
def test_a_filter_reaches_the_large_tables(world: World, condition: str, jobs: int) -> None:
    with transaction(world.sql_engine) as connection:
        connection.execution_options(no_parameters=True).exec_driver_sql(MANY_SWEEPS)
    names = rows(world.sql_engine, "SELECT viewname FROM pg_views WHERE schemaname = 'public' ORDER BY 1")
    # One host of a pair says nothing of which other one is meant, so that all would be read.
    without = {"failure_classes"} | ({"pairs"} if condition.startswith("host") else set())
    for view in (row["viewname"] for row in names if row["viewname"] not in without):
        asked = f"SELECT * FROM {view} WHERE {condition}"
        (plan,) = rows(world.sql_engine, f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {asked}")
        for table, per_attempt in LARGE.items():
            read = _rows_read(plan["QUERY PLAN"][0]["Plan"], table)
            assert read <= TWICE * jobs * per_attempt, f"{asked}\n{json.dumps(plan['QUERY PLAN'], indent=1)}"


def _rows_read(plan: Row, table: str) -> float:
    """How many of the table's rows the plan touched, those included that it then threw away."""
    own = 0.0
    if plan.get("Relation Name") == table:
        own = plan["Actual Loops"] * (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0))
    return own + sum(_rows_read(child, table) for child in plan.get("Plans", []))
