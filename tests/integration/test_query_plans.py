"""What is asked again and again reads what it needs, however many jobs there are.

The plans are Postgres's own for a database with a queue of many and a past of more, its statistics taken. No clock
decides: a plan either walks through a whole table of jobs, attempts, measurements or events, or it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Engine, text

from ddqueue.storage.engine import connect, transaction
from ddqueue.storage.sql_files import sql

JOBS = 50_000
"""In sweeps of a hundred; the newest two wait, the others have ended with an attempt and two measurements a job."""

TALL = {"jobs", "attempts", "measurements", "phases", "events"}

ROWS = (
    "SET LOCAL session_replication_role = replica",
    """
    INSERT INTO hosts (name, gpus, gpu_kind, simulated)
    SELECT 'host-' || n, 8, 'B300', false FROM generate_series(0, 3) AS n
    """,
    """
    INSERT INTO sweeps (name, revision, model, engine, out_of_distribution, simulated, file_name, file_text, measure)
    SELECT 'sweep-' || n, 1, 'kimi', 'sim', 'refuse', false, 'sweep.yaml', 'name: sweep', '{"repeats": {"min": 3}}'
    FROM generate_series(1, :jobs / 100) AS n
    """,
    """
    INSERT INTO cells (sweep_id, hash, position, label, canonical, baseline, out_of_distribution)
    SELECT s.id, 'cell-' || n, n, 'cell ' || n, '{}', n = 0, false
    FROM sweeps AS s CROSS JOIN generate_series(0, 24) AS n
    """,
    """
    INSERT INTO jobs (sweep_id, cell_hash, host, parallel, tp, ep, pp, dp, position, state, finished_at)
    SELECT
        c.sweep_id, c.hash, 'host-' || h, 'TP8', 8, 1, 1, 1, c.position * 4 + h,
        CASE WHEN c.sweep_id > :jobs / 100 - 2 THEN 'queued' ELSE 'succeeded' END,
        CASE WHEN c.sweep_id <= :jobs / 100 - 2 THEN now() END
    FROM cells AS c CROSS JOIN generate_series(0, 3) AS h
    ORDER BY c.sweep_id, c.position, h
    """,
    """
    INSERT INTO attempts (
        job_id, number, fence, host, started_at, ended_at, outcome, failure, runner_pid, runner_start_ticks, worker,
        simulated, effective_hash
    )
    SELECT
        id, 1, nextval('fence'), host, finished_at - interval '1 hour', finished_at,
        CASE WHEN id % 50 = 0 THEN 'failed' ELSE 'succeeded' END, CASE WHEN id % 50 = 0 THEN 'NCCL_HANG' END,
        1, id, 'gpu@' || host, false, cell_hash
    FROM jobs WHERE state = 'succeeded'
    """,
    """
    INSERT INTO measurements (
        attempt_id, concurrency, context_tokens, output_tokens_asked, repeat, started_at, wall_s, requests_completed,
        requests_failed, prompt_tokens, output_tokens, output_throughput_tok_s, valid, reasons, marks, client, simulated
    )
    SELECT id, 1, 60, 256, n, started_at, 14, 4, 0, 240, 1024, 100, true, '{}', '{}', '{}', false
    FROM attempts CROSS JOIN generate_series(1, 2) AS n
    """,
    """
    INSERT INTO phases (attempt_id, seq, name, started_at, duration_s, detail)
    SELECT id, n, 'measure', started_at + make_interval(mins => n), 60, '' FROM attempts, generate_series(1, 2) AS n
    """,
    """
    INSERT INTO events (sweep_id, job_id, attempt_id, host, kind)
    SELECT j.sweep_id, j.id, a.id, a.host, 'claimed' FROM attempts AS a JOIN jobs AS j ON j.id = a.job_id
    """,
    # One host works: its job runs, with an attempt that is open.
    """
    UPDATE jobs SET state = 'running', fence = nextval('fence'), lease_expires_at = now(), started_at = now()
    WHERE id = (SELECT min(id) FROM jobs WHERE state = 'queued')
    """,
    """
    INSERT INTO attempts (job_id, number, fence, host, runner_pid, runner_start_ticks, worker, simulated)
    SELECT id, 1, fence, host, 1, 1, 'gpu', false FROM jobs WHERE state = 'running'
    """,
)

ATTEMPT = {"job_id": JOBS - 150, "fence": JOBS, "attempt_id": JOBS}
STATEMENTS: dict[str, dict[str, Any]] = {
    "claim_job": {
        "job_id": JOBS - 150,
        "host": "host-1",
        "lease_ttl_s": 30.0,
        "runner_pid": 1,
        "runner_start_ticks": 1,
        "worker": "gpu",
    },
    "next_jobs": {"wake_again_after_s": 10.0},
    "heartbeat": {**ATTEMPT, "lease_ttl_s": 30.0, "activity": "measure"},
    "hold_fence": ATTEMPT,
    "finish_job": {
        **ATTEMPT,
        "state": "succeeded",
        "counts": False,
        "delay_s": 0.0,
        "failure": None,
        "evidence": None,
    },
    "finish_attempt": {**ATTEMPT, "outcome": "succeeded", "failure": None, "evidence": None},
    "requeue_dead": {"host": "host-1", "why": "gone", "lost_limit": 3},
    "rivals": {"job_id": 150},
    "same_server": {"job_id": 150, "effective_hash": "cell-3"},
    "read_queue": {"sweep_id": None, "limit": 100},
    "read_hosts": {},
    "read_jobs": {"sweep_id": 7},
    "read_repeats": {"sweep_id": 7},
    "host_failures": {"limit": 3},
    "ended_attempts": {"host": "host-1", "limit": 20},
    "live_running": {},
    "live_queue": {},
    "live_step_times": {"most": 20},
}
"""Each with the parameters that it is explained with."""


def test_nothing_asked_again_and_again_walks_through_a_table(database_url: str) -> None:
    sql_engine = connect(database_url, "test")
    try:
        _fill(sql_engine)
        assert _walked_through(sql_engine, "SELECT count(*) FROM jobs WHERE tries = :tries", {"tries": 1}) == {"jobs"}
        walked = {name: _walked_through(sql_engine, sql(name), wanted) for name, wanted in STATEMENTS.items()}
    finally:
        sql_engine.dispose()
    assert {name: tables for name, tables in walked.items() if tables} == {}


def _fill(sql_engine: Engine) -> None:
    with transaction(sql_engine) as connection:
        for statement in ROWS:
            connection.execute(text(statement), {"jobs": JOBS} if ":jobs" in statement else {})
    with sql_engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))


def _walked_through(sql_engine: Engine, query: str, wanted: dict[str, Any]) -> set[str]:
    """The tall tables that the query's plan reads from one end to the other."""
    with transaction(sql_engine) as connection:
        (plan,) = connection.execute(text(f"EXPLAIN (FORMAT JSON) {query}"), wanted).scalar_one()
    return {node["Relation Name"] for node in _nodes(plan["Plan"]) if node["Node Type"] == "Seq Scan"} & TALL


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)
