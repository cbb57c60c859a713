"""A host held for a person, sweeps that wait for another, and jobs that take their attempts down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from storage_world import RTX, RUNNER, World, a_sweep

from ddqueue.domain.failures import Failure
from ddqueue.domain.queueing import Lease
from ddqueue.domain.retry import LOST_LIMIT, Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.domain.sweep import jobs_of
from ddqueue.storage.dispatching import PostgresDispatchStore
from ddqueue.storage.references import Target


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    found = World(database_url)
    yield found
    found.sql_engine.dispose()


def woken(world: World) -> dict[str, int]:
    store = PostgresDispatchStore(world.sql_engine)
    with store.lead():
        return {job.host: job.job_id for job in store.next_jobs(0.0)}


def test_a_host_held_without_a_time_takes_nothing_until_it_is_released(world: World) -> None:
    world.submit()
    assert world.control.hold(RTX.name, "firmware") is None
    assert RTX.name not in woken(world)
    assert world.attempts.claim(RTX.name, world.jobs()[0], RUNNER, 15) is None
    (row,) = [row for row in world.reader.hosts() if row["name"] == RTX.name]
    assert (row["held_until"], row["hold_reason"]) == (None, "firmware")
    assert {job["waits_for"] for job in world.reader.queue() if job["host"] == RTX.name} == {"hold"}
    assert world.control.release(RTX.name)
    assert RTX.name in woken(world)


def test_a_hold_leaves_what_runs_alone_and_names_it(world: World) -> None:
    world.submit()
    claim = world.claim(world.jobs()[0])
    assert world.control.hold(RTX.name, "firmware", 3600) == claim.job_id
    assert world.attempts.heartbeat(claim, 15) is Lease.HELD
    world.succeed(claim)
    assert world.attempts.claim(RTX.name, world.jobs()[1], RUNNER, 15) is None


def test_a_hold_now_asks_what_runs_to_yield_and_costs_no_try(world: World) -> None:
    world.submit()
    claim = world.claim(world.jobs()[0])
    assert world.control.hold(RTX.name, "production", now=True) == claim.job_id
    assert world.attempts.heartbeat(claim, 15) is Lease.YIELD
    assert [event["now"] for event in world.events("held")] == [True]
    assert len(world.events("yield_requested")) == 1
    back = Decision(JobState.QUEUED, counts=False)
    world.attempts.finish(claim, AttemptOutcome.CANCELLED, back, Failure.CANCELLED, "a person wants the host")
    assert world.state(claim.job_id) == "queued"
    assert world.one("SELECT tries FROM jobs WHERE id = :id", id=claim.job_id) == 0
    assert world.one("SELECT yield_requested_at FROM jobs WHERE id = :id", id=claim.job_id) is None


def test_cancelling_beats_yielding(world: World) -> None:
    world.submit()
    claim = world.claim(world.jobs()[0])
    world.control.hold(RTX.name, "production", now=True)
    world.control.cancel(Target(claim.sweep_id, claim.job_id))
    assert world.attempts.heartbeat(claim, 15) is Lease.CANCEL


def test_a_sweep_waits_for_another_to_end(world: World) -> None:
    first = world.submit(a_sweep("first", budgets=(), hosts=(RTX,)), hosts=(RTX,))
    later = a_sweep("later", budgets=(), hosts=(RTX,))
    world.sweeps.add(later, jobs_of(later), (RTX,), priority=9, after=first.sweep_id)
    before, after = world.jobs()
    assert woken(world) == {RTX.name: before}
    assert world.attempts.claim(RTX.name, after, RUNNER, 15) is None
    assert {job["job_id"]: job["waits_for"] for job in world.reader.queue()} == {before: None, after: "sweep"}
    claim = world.claim(before)
    assert world.attempts.claim(RTX.name, after, RUNNER, 15) is None
    world.succeed(claim)
    assert woken(world) == {RTX.name: after}
    world.claim(after)


def test_a_job_that_takes_its_attempts_down_fails_in_the_end(world: World) -> None:
    world.submit()
    job_id = world.jobs()[0]
    for lost in range(1, LOST_LIMIT + 1):
        world.claim(job_id)
        assert world.attempts.requeue_dead(RTX.name, "its attempt died") == [job_id]
        assert world.state(job_id) == ("queued" if lost < LOST_LIMIT else "failed")
    assert world.one("SELECT failure FROM jobs WHERE id = :id", id=job_id) == "LEASE_LOST"
    assert "vanished" in world.one("SELECT evidence FROM jobs WHERE id = :id", id=job_id)
    assert world.one("SELECT tries FROM jobs WHERE id = :id", id=job_id) == 0
    world.control.retry(Target(world.one("SELECT sweep_id FROM jobs WHERE id = :id", id=job_id), job_id))
    world.claim(job_id)
    world.attempts.requeue_dead(RTX.name, "its attempt died")
    assert world.state(job_id) == "queued", "a person's retry begins the count anew"
