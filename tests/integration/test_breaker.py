"""The circuit breaker on real Postgres: what shuts a host, what a person sees of it, and what opens it again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from storage_world import RTX, RUNNER, World, a_sweep, at_once

from ddqueue.domain.failures import Failure
from ddqueue.domain.retry import after_failure
from ddqueue.domain.states import AttemptOutcome
from ddqueue.storage.dispatching import PostgresDispatchStore

CRASHED, HANG, STALLED = Failure.SERVER_CRASHED, Failure.NCCL_HANG, Failure.SERVER_STALLED
REASON = (
    "circuit breaker: 3 suspicious failures in a row, nothing succeeded between: "
    "job {} SERVER_CRASHED, job {} NCCL_HANG, job {} SERVER_STALLED"
)


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    world = World(database_url)
    world.submit(a_sweep(budgets=range(1, 12), hosts=[RTX]))
    yield world
    world.sql_engine.dispose()


def fail(world: World, job_id: int, failure: Failure) -> None:
    """One attempt of the job that ends with `failure`, decided as the pipeline decides, its back-off over at once."""
    claim = world.claim(job_id)
    decision = after_failure(failure, claim.tries_used + 1)
    world.attempts.finish(claim, AttemptOutcome.FAILED, decision, failure, f"evidence of {failure}")
    world.do("UPDATE jobs SET not_before = NULL")


def shut_by(world: World) -> tuple[str | None, str | None]:
    (host,) = [row for row in world.reader.hosts() if row["name"] == "rtx6000"]
    return host["quarantine_class"], host["quarantine_reason"]


def test_three_different_configurations_in_a_row_shut_the_host(world: World) -> None:
    one, two, three, four = world.jobs()[:4]
    fail(world, one, CRASHED)
    fail(world, two, HANG)
    assert shut_by(world) == (None, None)
    fail(world, three, STALLED)
    reason = REASON.format(one, two, three)
    assert shut_by(world) == ("SERVER_STALLED", reason)
    assert world.attempts.claim("rtx6000", four, RUNNER, 30.0) is None
    dispatcher = PostgresDispatchStore(world.sql_engine)
    with dispatcher.lead():
        assert dispatcher.next_jobs(0.0) == []
    assert {row["waits_for"] for row in world.reader.queue()} == {"quarantine"}
    assert world.events("quarantined") == [
        {"failure": "SERVER_STALLED", "reason": reason, "breaker": True, "jobs": [one, two, three]}
    ]


def test_the_failure_that_trips_it_is_stored_like_any_other(world: World) -> None:
    for job_id in world.jobs()[:3]:
        fail(world, job_id, CRASHED)
    third = world.jobs()[2]
    assert world.state(third) == "queued"
    assert world.one("SELECT tries FROM jobs WHERE id = :id", id=third) == 1
    assert world.one("SELECT failure FROM attempts WHERE job_id = :id", id=third) == "SERVER_CRASHED"


def test_one_bad_configuration_uses_up_its_tries_and_does_not_shut_the_host(world: World) -> None:
    bad, worse = world.jobs()[:2]
    for job_id in (bad, bad, worse, worse):
        fail(world, job_id, CRASHED)
    assert world.state(bad) == world.state(worse) == "failed"
    assert shut_by(world) == (None, None)


def test_the_same_cell_submitted_again_is_the_same_configuration(world: World) -> None:
    for _ in range(3):
        world.submit(a_sweep(budgets=[1], hosts=[RTX]))
    same_cell = world.column(
        "SELECT j.id FROM jobs AS j JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash "
        "WHERE c.baseline IS FALSE AND c.label = 'b1 t4 w2048' ORDER BY j.id"
    )
    assert len(same_cell) == 4
    for job_id in same_cell:
        fail(world, job_id, CRASHED)
    assert shut_by(world) == (None, None)


def test_configurations_that_cannot_work_shut_nothing(world: World) -> None:
    for job_id, failure in zip(
        world.jobs(), [Failure.OOM_LOAD, Failure.BAD_ARGS, Failure.UNSUPPORTED, Failure.KV_TOO_SMALL] * 2, strict=False
    ):
        fail(world, job_id, failure)
    assert shut_by(world) == (None, None)


def test_a_success_between_starts_the_count_again(world: World) -> None:
    jobs = world.jobs()
    fail(world, jobs[0], CRASHED)
    fail(world, jobs[1], CRASHED)
    world.succeed(world.claim(jobs[2]))
    fail(world, jobs[3], CRASHED)
    fail(world, jobs[4], CRASHED)
    assert shut_by(world) == (None, None)
    fail(world, jobs[5], CRASHED)
    assert shut_by(world)[0] == "SERVER_CRASHED"


def test_a_release_starts_the_count_again(world: World) -> None:
    jobs = world.jobs()
    for job_id in jobs[:3]:
        fail(world, job_id, CRASHED)
    assert world.control.release("rtx6000") is True
    fail(world, jobs[3], CRASHED)
    fail(world, jobs[4], CRASHED)
    assert shut_by(world) == (None, None)
    assert world.control.release("rtx6000") is False
    fail(world, jobs[5], CRASHED)
    fail(world, jobs[6], CRASHED)
    assert shut_by(world) == (None, None)
    fail(world, jobs[7], CRASHED)
    assert shut_by(world)[0] == "SERVER_CRASHED"


def test_a_fault_of_the_box_keeps_its_own_reason_and_counts_too(world: World) -> None:
    jobs = world.jobs()
    fail(world, jobs[0], CRASHED)
    fail(world, jobs[1], CRASHED)
    fail(world, jobs[2], Failure.GPU_LOST)
    assert shut_by(world) == ("GPU_LOST", "evidence of GPU_LOST")
    assert world.state(jobs[2]) == "queued"
    assert world.one("SELECT tries FROM jobs WHERE id = :id", id=jobs[2]) == 0


def test_another_hosts_failures_do_not_count(world: World) -> None:
    world.submit(a_sweep("other", budgets=range(1, 5)))
    for job_id in world.jobs("b300")[:2]:
        claim = world.claim(job_id, host="b300")
        decision = after_failure(CRASHED, claim.tries_used + 1)
        world.attempts.finish(claim, AttemptOutcome.FAILED, decision, CRASHED, "evidence")
    fail(world, world.jobs()[0], CRASHED)
    assert shut_by(world) == (None, None)


def test_a_release_at_the_same_moment_is_not_undone(world: World) -> None:
    """Whichever comes first: the host ends shut by three failures after the release, or open, never half of each."""
    jobs = world.jobs()
    fail(world, jobs[0], CRASHED)
    fail(world, jobs[1], CRASHED)
    claim = world.claim(jobs[2])
    decision = after_failure(CRASHED, 1)
    at_once(
        [
            partial(world.attempts.finish, claim, AttemptOutcome.FAILED, decision, CRASHED, "evidence"),
            partial(world.control.release, "rtx6000"),
        ]
    )
    kinds = world.column("SELECT kind FROM events WHERE kind IN ('quarantined', 'released') ORDER BY id")
    # Shut and then released, or released before the third failure counted.
    assert kinds in (["quarantined", "released"], [])
    assert shut_by(world) == (None, None)


def test_the_newest_failures_of_each_host_can_be_read(world: World) -> None:
    jobs = world.jobs()
    for job_id in (jobs[0], jobs[1], jobs[0], jobs[3]):
        fail(world, job_id, Failure.INFRA if job_id == jobs[3] else CRASHED)
    rows = world.reader.host_failures(limit=3)
    assert [(row["host"], row["job_id"], row["failure"], row["outcome"]) for row in rows] == [
        ("rtx6000", jobs[3], "INFRA", "failed"),
        ("rtx6000", jobs[0], "SERVER_CRASHED", "failed"),
        ("rtx6000", jobs[1], "SERVER_CRASHED", "failed"),
    ]
    assert rows[0]["evidence"] == "evidence of INFRA"
    assert rows[0]["sweep"] == "kimi-ddtree@1"
