"""What a person does to the queue, in every state a job can be in; submitting; naming sweeps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from storage_world import B300, RTX, RUNNER, World, a_measurement, a_sweep, at_once

from ddqueue.domain.failures import Failure
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.errors import StaleFence, UsageError
from ddqueue.storage.control import Cancelled
from ddqueue.storage.pooled_reads import PooledReads
from ddqueue.storage.references import Target, find_target


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    world = World(database_url)
    yield world
    world.sql_engine.dispose()


def bring(world: World, job_id: int, state: JobState) -> None:
    """Move a queued job to `state` the way the queue itself would."""
    if state is JobState.QUEUED:
        return
    claim = world.claim(job_id)
    outcomes = {
        JobState.SUCCEEDED: (AttemptOutcome.SUCCEEDED, None),
        JobState.FAILED: (AttemptOutcome.FAILED, Failure.OOM_LOAD),
        JobState.UNSUPPORTED: (AttemptOutcome.FAILED, Failure.UNSUPPORTED),
        JobState.CANCELLED: (AttemptOutcome.CANCELLED, None),
        JobState.PRUNED: (AttemptOutcome.PRUNED, None),
    }
    if state in outcomes:
        outcome, failure = outcomes[state]
        world.attempts.finish(claim, outcome, Decision(state), failure, "evidence" if failure else None)


@pytest.mark.parametrize("state", list(JobState))
def test_cancel(world: World, state: JobState) -> None:
    submitted = world.submit()
    job_id = world.jobs()[0]
    bring(world, job_id, state)
    done = world.control.cancel(Target(submitted.sweep_id, job_id))
    expected = {
        JobState.QUEUED: (Cancelled((job_id,), ()), "cancelled"),
        JobState.RUNNING: (Cancelled((), (job_id,)), "running"),
    }
    assert (done, world.state(job_id)) == expected.get(state, (Cancelled((), ()), state.value))
    assert world.one("SELECT count(*) FROM jobs WHERE state = 'queued'") == 5
    if state is JobState.RUNNING:
        asked = "SELECT cancel_requested_at FROM jobs WHERE id = :id"
        first = world.one(asked, id=job_id)
        world.control.cancel(Target(submitted.sweep_id, job_id))
        assert world.one(asked, id=job_id) == first


def test_a_box_that_is_gone_ends_what_ran_there_and_is_refused_when_it_comes_back(world: World) -> None:
    submitted = world.submit()
    first, second = world.jobs("rtx6000")[0], world.jobs("b300")[0]
    lost = world.claim(first, lease_ttl_s=0.0)
    alive = world.claim(second, "b300")
    done = world.control.cancel(Target(submitted.sweep_id), box_gone=True)
    assert (first in done.ended, done.asked_to_stop) == (True, (second,)), "who lives is asked"
    assert (world.state(first), world.state(second)) == ("cancelled", "running")
    assert world.column("SELECT outcome FROM attempts WHERE job_id = :id", id=first) == ["lost"]
    assert {"why": "a person said that its box is gone", "state": "cancelled"} in world.events("lost")
    with pytest.raises(StaleFence):
        world.attempts.record_measurement(lost, a_measurement())
    world.attempts.record_measurement(alive, a_measurement())
    assert world.control.cancel(Target(submitted.sweep_id, first), box_gone=True) == Cancelled((), ())


@pytest.mark.parametrize("state", list(JobState))
def test_retry(world: World, state: JobState) -> None:
    submitted = world.submit()
    job_id = world.jobs()[0]
    bring(world, job_id, state)
    retried = world.control.retry(Target(submitted.sweep_id, job_id))
    by_hand = state in (JobState.FAILED, JobState.UNSUPPORTED, JobState.CANCELLED, JobState.PRUNED)
    assert retried == ((job_id,) if by_hand else ())
    assert world.state(job_id) == ("queued" if by_hand else state.value)
    if by_hand:
        claim = world.claim(job_id)
        assert (claim.attempt_number, claim.tries_used) == (2, 0)
        world.succeed(claim)
        assert world.state(job_id) == "succeeded"


@pytest.mark.parametrize("state", list(JobState))
def test_pause_lets_what_runs_go_on_and_starts_nothing(world: World, state: JobState) -> None:
    submitted = world.submit()
    job_id = world.jobs()[0]
    bring(world, job_id, state)
    assert world.control.pause(submitted.sweep_id) is True
    assert world.control.pause(submitted.sweep_id) is False
    assert world.state(job_id) == state.value
    assert {row["waits_for"] for row in world.reader.queue() if row["state"] == "queued"} == {"paused"}
    assert world.control.resume(submitted.sweep_id) is True
    assert world.control.resume(submitted.sweep_id) is False
    assert {row["waits_for"] for row in world.reader.queue()} == {None}
    assert world.events("paused") == world.events("resumed") == [{}]


def test_cancel_and_retry_of_a_whole_sweep_leave_other_sweeps_alone(world: World) -> None:
    first, _ = world.submit(a_sweep("first")), world.submit(a_sweep("second"))
    running = world.jobs()[0]
    world.claim(running)
    done = world.control.cancel(Target(first.sweep_id))
    assert done.asked_to_stop == (running,)
    assert len(done.ended) == 5
    assert world.one("SELECT count(*) FROM jobs WHERE state = 'queued'") == 6
    assert len(world.events("cancelled")) == 5
    assert world.control.retry(Target(first.sweep_id)) == done.ended


def test_retry_by_failure_class(world: World) -> None:
    submitted = world.submit()
    for job_id, failure in zip(world.jobs(), [Failure.OOM_LOAD, Failure.PORT_BUSY, Failure.OOM_LOAD], strict=True):
        world.attempts.finish(world.claim(job_id), AttemptOutcome.FAILED, Decision(JobState.FAILED), failure, "line")
    first, second, third = world.jobs()
    assert world.control.retry(Target(submitted.sweep_id), [Failure.OOM_LOAD]) == (first, third)
    assert world.state(second) == "failed"


def test_a_cancel_never_escapes_a_job_that_moves_meanwhile(world: World) -> None:
    """Cancel races with claim and recovery: whatever the order, the job ends cancelled or is asked to stop."""
    submitted = world.submit(a_sweep(budgets=range(1, 12), hosts=[RTX]))
    for job_id in world.jobs():
        at_once(
            [
                partial(world.attempts.claim, "rtx6000", job_id, RUNNER, 30.0),
                partial(world.control.cancel, Target(submitted.sweep_id, job_id)),
                lambda: world.attempts.requeue_dead("rtx6000", "race"),
            ]
        )
        world.attempts.requeue_dead("rtx6000", "end of the round")
        assert world.state(job_id) == "cancelled"


def test_submitting_a_name_again_makes_a_new_revision(world: World) -> None:
    assert [world.submit().revision, world.submit().revision] == [1, 2]
    assert world.submit(a_sweep("other")).revision == 1
    assert str(world.reader.sweep("kimi-ddtree")) == "kimi-ddtree@2"
    assert str(world.reader.sweep("kimi-ddtree@1")) == "kimi-ddtree@1"


def test_submitting_a_name_twenty_times_at_once_makes_twenty_revisions(world: World) -> None:
    submitted = at_once([world.submit] * 20)
    assert sorted(one.revision for one in submitted) == list(range(1, 21))
    assert {one.jobs for one in submitted} == {6}


def test_a_submission_keeps_quarantine_and_renews_the_description(world: World) -> None:
    world.submit()
    world.attempts.quarantine("rtx6000", Failure.GPU_LOST, "Xid 79")
    world.do("UPDATE hosts SET gpus = 4, gpu_kind = 'old' WHERE name = 'rtx6000'")
    world.submit(hosts=(RTX, B300))
    (host,) = [row for row in world.reader.hosts() if row["name"] == "rtx6000"]
    assert (host["gpus"], host["gpu_kind"], host["quarantine_reason"]) == (8, "RTX PRO 6000", "Xid 79")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("kimi-dtree", "there is no sweep 'kimi-dtree'; did you mean kimi-ddtree?"),
        ("zzz", "there is no sweep 'zzz'; `ddqueue status` lists them"),
        ("kimi-ddtree@3", "sweep 'kimi-ddtree' has no revision 3; the newest is kimi-ddtree@1"),
        ("kimi-ddtree@x", "'kimi-ddtree@x' is not a sweep; write its name, or name@2 for its second revision"),
        ("kimi\0", "a sweep's name holds no NUL"),
    ],
)
def test_an_unknown_sweep_is_refused_with_a_hint(world: World, reference: str, message: str) -> None:
    world.submit()
    with pytest.raises(UsageError) as refused:
        world.reader.sweep(reference)
    assert str(refused.value) == message


def test_a_number_is_a_job(world: World) -> None:
    submitted = world.submit()
    job_id = world.jobs()[1]
    assert find_target(PooledReads(world.sql_engine), str(job_id)) == Target(submitted.sweep_id, job_id)
    assert find_target(PooledReads(world.sql_engine), "kimi-ddtree") == Target(submitted.sweep_id)
    with pytest.raises(UsageError, match="there is no job 999"):
        find_target(PooledReads(world.sql_engine), "999")


def test_an_unknown_host_is_refused(world: World) -> None:
    world.submit()
    for act in (lambda: world.control.hold("a100", "x", 1.0), lambda: world.control.release("a100")):
        with pytest.raises(UsageError, match="knows no host 'a100'; it knows b300, rtx6000"):
            act()
