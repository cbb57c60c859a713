"""What the schema itself refuses, whoever writes; and what a person sees when the database is away."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError
from storage_world import World, a_measurement

from ddqueue.domain.states import TRANSITIONS, JobState, may_move
from ddqueue.errors import NotReachable, UsageError
from ddqueue.local.servers import ephemeral
from ddqueue.storage import migrate
from ddqueue.storage.engine import connect
from ddqueue.storage.pooled_reads import PooledReads
from ddqueue.storage.reading import PostgresReader


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    world = World(database_url)
    yield world
    world.sql_engine.dispose()


# Every state's other columns, so that only the move itself can be refused.
ROW_OF = {
    JobState.QUEUED: "finished_at = NULL, failure = NULL, fence = NULL, lease_expires_at = NULL",
    JobState.RUNNING: "finished_at = NULL, failure = NULL, fence = nextval('fence'), lease_expires_at = now()",
    JobState.SUCCEEDED: "finished_at = now(), failure = NULL, fence = NULL, lease_expires_at = NULL",
    JobState.FAILED: "finished_at = now(), failure = 'INFRA', fence = NULL, lease_expires_at = NULL",
    JobState.UNSUPPORTED: "finished_at = now(), failure = 'UNSUPPORTED', fence = NULL, lease_expires_at = NULL",
    JobState.CANCELLED: "finished_at = now(), failure = NULL, fence = NULL, lease_expires_at = NULL",
    JobState.PRUNED: "finished_at = now(), failure = NULL, fence = NULL, lease_expires_at = NULL",
}


def test_jobs_move_exactly_as_the_domain_says(world: World) -> None:
    world.submit()
    job_id = world.jobs()[0]
    moved = {}
    for before, after in product(JobState, JobState):
        if before is after:
            continue
        world.do("ALTER TABLE jobs DISABLE TRIGGER jobs_moves")
        world.do(f"UPDATE jobs SET state = '{before}', {ROW_OF[before]} WHERE id = :id", id=job_id)
        world.do("ALTER TABLE jobs ENABLE TRIGGER jobs_moves")
        moved[before, after] = _moves(world, job_id, before, after)
    assert moved == {(before, after): may_move(before, after) for before, after in moved}
    assert sum(moved.values()) == sum(len(after) for after in TRANSITIONS.values())


def _moves(world: World, job_id: int, before: JobState, after: JobState) -> bool:
    move = f"UPDATE jobs SET state = '{after}', {ROW_OF[after]} WHERE id = :id"
    try:
        world.do(move, id=job_id)
    except DBAPIError as error:
        if f"cannot move from {before} to {after}" in str(error):
            return False
        raise
    return True


@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        ("UPDATE jobs SET state = 'started'", "cannot move from queued to started"),
        (
            "INSERT INTO jobs (sweep_id, cell_hash, host, parallel, tp, ep, pp, dp, position, state)"
            " SELECT sweep_id, cell_hash, host, 'TP8', 8, 1, 1, 1, position, 'started' FROM jobs",
            "jobs_state_known",
        ),
        ("UPDATE jobs SET fence = 7", "jobs_running_has_fence_and_lease"),
        ("UPDATE jobs SET lease_expires_at = now()", "jobs_running_has_fence_and_lease"),
        ("UPDATE jobs SET state = 'running', fence = 7", "jobs_running_has_fence_and_lease"),
        ("UPDATE jobs SET finished_at = now()", "jobs_final_is_finished"),
        ("UPDATE jobs SET state = 'cancelled'", "jobs_final_is_finished"),
        ("UPDATE jobs SET failure = 'INFRA'", "jobs_failure_only_when_failed"),
        ("UPDATE jobs SET cancel_requested_at = now()", "jobs_queued_is_cancelled_at_once"),
        ("UPDATE jobs SET tries = -1", "jobs_counts_positive"),
        (
            "UPDATE jobs SET state = 'running', fence = nextval('fence'), lease_expires_at = now()",
            "jobs_one_running_per_host",
        ),
        ("UPDATE hosts SET quarantined_at = now()", "hosts_quarantine_has_a_reason"),
        (
            "UPDATE hosts SET quarantined_at = now(), quarantine_class = 'BAD_DAY', quarantine_reason = 'x'",
            "hosts_quarantine_class_known",
        ),
        ("UPDATE sweeps SET revision = 0", "sweeps_revision_counts_from_one"),
        ("UPDATE cells SET block_size = 8 WHERE baseline", "cells_baseline_has_no_speculation"),
        ("UPDATE jobs SET parallel = 'EP8', cell_hash = (SELECT min(hash) FROM cells)", "jobs_sweep_id_cell_hash"),
    ],
)
def test_impossible_queue_rows_are_refused(world: World, statement: str, constraint: str) -> None:
    world.submit()
    with pytest.raises(DBAPIError, match=constraint):
        world.do(statement)


@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        ("UPDATE attempts SET outcome = 'succeeded'", "attempts_ended_has_an_outcome"),
        ("UPDATE attempts SET ended_at = now()", "attempts_ended_has_an_outcome"),
        ("UPDATE attempts SET ended_at = now(), outcome = 'fine'", "attempts_outcome_known"),
        ("UPDATE attempts SET ended_at = now(), outcome = 'failed'", "attempts_failed_has_a_class"),
        ("UPDATE attempts SET ended_at = now(), outcome = 'succeeded', failure = 'INFRA'", "attempts_no_failure_in_su"),
        (
            "INSERT INTO attempts (job_id, number, fence, host, runner_pid, runner_start_ticks, worker, simulated,"
            " ended_at, outcome) SELECT job_id, n, -n, host, 1, 1, 'w', false, now(), 'succeeded'"
            " FROM attempts, generate_series(2, 3) AS n",
            "attempts_one_accepted_per_job",
        ),
        ("UPDATE measurements SET valid = false", "measurements_invalid_has_reasons"),
        ("UPDATE measurements SET reasons = '{NO_TOKENS}'", "measurements_invalid_has_reasons"),
        ("UPDATE measurements SET valid = false, reasons = '{LAZY}'", "measurements_reasons_known"),
        ("UPDATE measurements SET output_throughput_tok_s = 0", "measurements_valid_has_throughput"),
        ("UPDATE measurements SET output_throughput_tok_s = NULL", "measurements_valid_has_throughput"),
        ("UPDATE measurements SET itl_p99_ms = 'NaN'", "measurements_numbers_finite"),
        ("UPDATE measurements SET step_time_ms = 'Infinity'", "measurements_numbers_finite"),
        ("UPDATE measurements SET ttft_mean_ms = '-Infinity'", "measurements_numbers_finite"),
        ("UPDATE measurements SET verifies = 0", "measurements_acceptance_has_verifies"),
        ("INSERT INTO phases VALUES (1, 1, 'x', now(), 'NaN', '')", "phases_duration_finite"),
    ],
)
def test_impossible_result_rows_are_refused(world: World, statement: str, constraint: str) -> None:
    world.submit()
    claim = world.claim(world.jobs()[0])
    world.attempts.record_measurement(claim, a_measurement())
    with pytest.raises(DBAPIError, match=constraint):
        world.do(statement)


def test_a_database_that_has_stopped_is_not_reachable(open_folder: Path) -> None:
    with ephemeral(open_folder / "stopping") as servers:
        migrate.upgrade(servers.database_url)
        world = World(servers.database_url)
        world.submit()
        assert len(world.reader.sweeps()) == 1
    for call in (world.reader.sweeps, world.submit, lambda: world.attempts.requeue_dead("rtx6000", "x")):
        with pytest.raises(NotReachable) as away:
            call()
        assert _password(servers.database_url) not in str(away.value)
        assert "\n" not in str(away.value)
        assert str(away.value).startswith("Postgres at 127.0.0.1:")
    world.sql_engine.dispose()


def test_a_wrong_password_is_not_reachable_and_not_repeated(database_url: str) -> None:
    wrong = database_url.replace(_password(database_url), "not-the-password")
    with pytest.raises(NotReachable, match="password authentication failed") as away:
        PostgresReader(PooledReads(connect(wrong, "test"))).sweeps()
    assert "not-the-password" not in str(away.value)


def test_a_database_without_tables_names_the_remedy(empty_database_url: str) -> None:
    with pytest.raises(UsageError, match="run `ddqueue db upgrade`"):
        PostgresReader(PooledReads(connect(empty_database_url, "test"))).sweeps()


@pytest.mark.parametrize("url", ["mysql://root:hunter2@h/x", "hunter2", "postgresql://a:hunter2@h:port/x"])
def test_a_url_that_is_not_postgres_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        connect(url, "test")
    assert "hunter2" not in str(refused.value)
    assert "postgresql://" in str(refused.value)


def _password(url: str) -> str:
    return url.partition("://")[2].partition("@")[0].partition(":")[2]
