"""The fenced side of the queue: claims, leases, stale writes, finishing, recovery."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest
from storage_world import B300, POINTS, RTX, RUNNER, SUCCESS, World, a_measurement, a_sweep, at_once

from ddqueue.domain.failures import Failure
from ddqueue.domain.queueing import Claim, Lease, PhaseRecord
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.errors import StaleFence, UsageError

WHEN = datetime(2025, 1, 2, tzinfo=UTC)
AGAIN = Decision(JobState.QUEUED)


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    world = World(database_url)
    yield world
    world.sql_engine.dispose()


def test_a_claim_carries_everything_the_attempt_needs(world: World) -> None:
    submitted = world.submit()
    job_id = world.jobs()[1]
    claim = world.claim(job_id)
    sweep = a_sweep()
    assert claim == Claim(
        job_id=job_id,
        attempt_id=claim.attempt_id,
        attempt_number=1,
        tries_used=0,
        fence=claim.fence,
        host="rtx6000",
        sweep_id=submitted.sweep_id,
        sweep="kimi-ddtree@1",
        cell=sweep.cells[1].cell,
        cell_label="b8 t4 w2048",
        out_of_distribution=False,
        parallelism=sweep.parallel["rtx6000"][0],
        measure=sweep.measure,
    )
    assert world.state(job_id) == "running"
    assert world.one("SELECT simulated FROM attempts") is True


def test_fences_only_grow(world: World) -> None:
    world.submit()
    fences = []
    for job_id in world.jobs():
        claim = world.claim(job_id)
        fences.append(claim.fence)
        world.succeed(claim)
    assert fences == sorted(set(fences))
    assert len(fences) == 3


def test_twenty_claimers_of_one_host_leave_one_running(world: World) -> None:
    world.submit(a_sweep(budgets=range(1, 20)))
    jobs = world.jobs()
    assert len(jobs) == 20
    claims = at_once([partial(world.attempts.claim, "rtx6000", job_id, RUNNER, 30.0) for job_id in jobs])
    assert sum(claim is not None for claim in claims) == 1
    assert world.one("SELECT count(*) FROM jobs WHERE state = 'running'") == 1
    assert world.one("SELECT count(*) FROM attempts") == 1


def test_twenty_claimers_of_one_job_leave_one_attempt(world: World) -> None:
    world.submit()
    job_id = world.jobs()[0]
    claims = at_once([partial(world.attempts.claim, "rtx6000", job_id, RUNNER, 30.0)] * 20)
    assert sum(claim is not None for claim in claims) == 1
    assert world.one("SELECT count(*) FROM attempts") == 1


def test_two_hosts_run_at_once(world: World) -> None:
    world.submit()
    world.claim(world.jobs("rtx6000")[0])
    world.claim(world.jobs("b300")[0], host="b300")
    assert world.one("SELECT count(*) FROM jobs WHERE state = 'running'") == 2


@pytest.mark.parametrize(
    "obstacle",
    [
        "UPDATE sweeps SET paused = true",
        "UPDATE jobs SET not_before = clock_timestamp() + interval '1 hour'",
        "UPDATE hosts SET held_at = clock_timestamp(), held_until = clock_timestamp() + interval '1 hour',"
        " hold_reason = 'maintenance'",
        "UPDATE hosts SET quarantined_at = now(), quarantine_class = 'GPU_LOST', quarantine_reason = 'Xid 79'",
        "UPDATE jobs SET state = 'cancelled', finished_at = now()",
    ],
)
def test_nothing_is_claimed_against_an_obstacle(world: World, obstacle: str) -> None:
    world.submit()
    job_id = world.jobs()[0]
    world.do(obstacle)
    assert world.attempts.claim("rtx6000", job_id, RUNNER, 30.0) is None
    assert world.one("SELECT count(*) FROM attempts") == 0


def test_obstacles_that_have_passed_do_not_matter(world: World) -> None:
    world.submit()
    world.do("UPDATE jobs SET not_before = clock_timestamp() - interval '1 second'")
    world.do(
        "UPDATE hosts SET held_at = clock_timestamp(), held_until = clock_timestamp() - interval '1 second',"
        " hold_reason = 'over'"
    )
    assert world.claim(world.jobs()[0]).attempt_number == 1


def test_a_job_of_another_host_is_not_claimed(world: World) -> None:
    world.submit()
    assert world.attempts.claim("b300", world.jobs("rtx6000")[0], RUNNER, 30.0) is None


WRITES: dict[str, Callable[[World, Claim], None]] = {
    "phase": lambda world, claim: world.attempts.record_phase(claim, PhaseRecord("launch", WHEN, 1.0)),
    "provenance": lambda world, claim: world.attempts.record_provenance(claim, {"driver": "580"}),
    "configuration": lambda world, claim: world.attempts.record_configuration(claim, {"a": 1}, {"a": 2}, {"a": [1, 2]}),
    "measurement": lambda world, claim: world.attempts.record_measurement(claim, a_measurement()),
    "success": lambda world, claim: world.succeed(claim),
    "failure": lambda world, claim: world.attempts.finish(
        claim, AttemptOutcome.FAILED, Decision(JobState.QUEUED, quarantine=True), Failure.GPU_LOST, "Xid 79"
    ),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_a_stale_write_is_refused_and_changes_nothing(world: World, write: Callable[[World, Claim], None]) -> None:
    world.submit()
    job_id = world.jobs()[0]
    stale = world.claim(job_id)
    assert world.attempts.requeue_dead("rtx6000", "runner 4242 has ended") == [job_id]
    fresh = world.claim(job_id)
    before = _everything(world)
    with pytest.raises(StaleFence, match=f"job {job_id} refused: fence {stale.fence} "):
        write(world, stale)
    assert _everything(world) == before
    write(world, fresh)
    assert _everything(world) != before


def _everything(world: World) -> list[str]:
    tables = ("jobs", "attempts", "phases", "measurements", "samples", "events", "hosts")
    return [row for table in tables for row in world.column(f"SELECT t::text FROM {table} AS t ORDER BY 1")]


def test_a_heartbeat_says_held_cancel_or_lost(world: World) -> None:
    world.submit()
    job_id = world.jobs()[0]
    claim = world.claim(job_id, lease_ttl_s=0.0)
    assert world.attempts.heartbeat(claim, 3600.0) is Lease.HELD
    assert world.one("SELECT lease_expires_at > now() + interval '59 minutes' FROM jobs WHERE id = :id", id=job_id)
    world.do("UPDATE jobs SET cancel_requested_at = now() WHERE id = :id", id=job_id)
    assert world.attempts.heartbeat(claim, 30.0) is Lease.CANCEL
    world.attempts.requeue_dead("rtx6000", "gone")
    assert world.attempts.heartbeat(claim, 30.0) is Lease.LOST


def test_an_expired_lease_alone_takes_nothing_away(world: World) -> None:
    world.submit()
    claim = world.claim(world.jobs()[0], lease_ttl_s=0.0)
    assert world.attempts.claim("rtx6000", claim.job_id, RUNNER, 30.0) is None
    world.succeed(claim)
    assert world.state(claim.job_id) == "succeeded"


def test_requeue_dead_ends_the_attempt_as_lost_and_costs_no_try(world: World) -> None:
    world.submit()
    job_id = world.jobs()[0]
    other = world.claim(world.jobs("b300")[0], host="b300")
    world.claim(job_id)
    assert world.attempts.requeue_dead("rtx6000", "runner 4242 has ended") == [job_id]
    assert world.attempts.requeue_dead("rtx6000", "runner 4242 has ended") == []
    assert world.state(job_id) == "queued"
    assert world.state(other.job_id) == "running"
    assert world.column("SELECT outcome || failure || evidence FROM attempts WHERE job_id = :id", id=job_id) == [
        "lostLEASE_LOSTrunner 4242 has ended"
    ]
    again = world.claim(job_id)
    assert (again.attempt_number, again.tries_used) == (2, 0)
    assert world.events("lost") == [{"why": "runner 4242 has ended", "state": "queued"}]


def test_a_lost_job_that_was_to_be_cancelled_is_cancelled(world: World) -> None:
    world.submit()
    job_id = world.jobs()[0]
    world.claim(job_id)
    world.do("UPDATE jobs SET cancel_requested_at = now() WHERE id = :id", id=job_id)
    world.attempts.requeue_dead("rtx6000", "gone")
    assert world.state(job_id) == "cancelled"


def test_a_retryable_failure_waits_and_uses_up_a_try(world: World) -> None:
    world.submit()
    job_id = world.jobs()[0]
    decision = Decision(JobState.QUEUED, delay_s=3600.0)
    world.attempts.finish(world.claim(job_id), AttemptOutcome.FAILED, decision, Failure.PORT_BUSY, "pid 7 listens")
    assert world.one("SELECT tries FROM jobs WHERE id = :id", id=job_id) == 1
    assert world.one("SELECT not_before > now() + interval '59 minutes' FROM jobs WHERE id = :id", id=job_id)
    assert world.attempts.claim("rtx6000", job_id, RUNNER, 30.0) is None
    world.do("UPDATE jobs SET not_before = NULL WHERE id = :id", id=job_id)
    assert world.claim(job_id).tries_used == 1


def test_a_fault_of_the_host_quarantines_it_and_costs_no_try(world: World) -> None:
    world.submit()
    job_id = world.jobs()[0]
    decision = Decision(JobState.QUEUED, counts=False, quarantine=True)
    world.attempts.finish(world.claim(job_id), AttemptOutcome.FAILED, decision, Failure.GPU_LOST, "Xid 79 on GPU 3")
    assert world.state(job_id) == "queued"
    assert world.one("SELECT tries FROM jobs WHERE id = :id", id=job_id) == 0
    assert world.one("SELECT quarantine_class FROM hosts WHERE name = 'rtx6000'") == "GPU_LOST"
    assert world.attempts.claim("rtx6000", job_id, RUNNER, 30.0) is None
    assert world.control.release("rtx6000") is True
    assert world.control.release("rtx6000") is False
    assert world.claim(job_id).tries_used == 0


def test_a_quarantined_host_keeps_its_first_reason(world: World) -> None:
    world.submit()
    world.attempts.quarantine("rtx6000", Failure.GPU_LOST, "seven rows of eight")
    world.attempts.quarantine("rtx6000", Failure.SHM_FULL, "/dev/shm: 0 bytes free")
    assert world.one("SELECT quarantine_reason FROM hosts WHERE name = 'rtx6000'") == "seven rows of eight"
    assert len(world.events("quarantined")) == 1
    with pytest.raises(UsageError, match="no host 'a100'"):
        world.attempts.quarantine("a100", Failure.GPU_LOST, "gone")


def test_a_failed_job_keeps_class_and_evidence(world: World) -> None:
    world.submit()
    job_id = world.jobs()[0]
    world.attempts.finish(
        world.claim(job_id), AttemptOutcome.FAILED, Decision(JobState.FAILED), Failure.OOM_CAPTURE, "bucket 26/58"
    )
    assert world.column("SELECT state || ' ' || failure || ' ' || evidence FROM jobs WHERE id = :id", id=job_id) == [
        "failed OOM_CAPTURE bucket 26/58"
    ]


def test_a_cancel_wins_over_going_back_to_the_queue_and_loses_to_success(world: World) -> None:
    world.submit()
    first, second = world.jobs()[:2]
    claim = world.claim(first)
    world.do("UPDATE jobs SET cancel_requested_at = now() WHERE id = :id", id=first)
    world.attempts.finish(claim, AttemptOutcome.FAILED, AGAIN, Failure.PORT_BUSY, "pid 7")
    assert world.state(first) == "cancelled"
    claim = world.claim(second)
    world.do("UPDATE jobs SET cancel_requested_at = now() WHERE id = :id", id=second)
    world.succeed(claim)
    assert world.state(second) == "succeeded"


def test_every_call_may_be_repeated_after_a_lost_answer(world: World) -> None:
    world.submit()
    claim = world.claim(world.jobs()[0])
    phase = PhaseRecord("launch", WHEN, 1.5, "ok")
    for _ in range(2):
        world.attempts.record_phase(claim, phase)
        world.attempts.record_measurement(claim, a_measurement())
    world.attempts.record_phase(claim, replace(phase, name="ready"))
    for _ in range(2):
        world.succeed(claim)
    assert world.column("SELECT seq || name FROM phases ORDER BY seq") == ["1launch", "2ready"]
    assert world.one("SELECT count(*) FROM measurements") == 1
    assert world.one("SELECT count(*) FROM samples") == 2
    assert len(world.events("finished")) == 1


def test_a_different_finish_after_the_first_is_stale(world: World) -> None:
    world.submit()
    claim = world.claim(world.jobs()[0])
    world.succeed(claim)
    with pytest.raises(StaleFence):
        world.attempts.finish(claim, AttemptOutcome.FAILED, Decision(JobState.FAILED), Failure.INFRA, "late")
    assert world.state(claim.job_id) == "succeeded"


@pytest.mark.parametrize(
    ("outcome", "decision", "failure"),
    [
        (AttemptOutcome.SUCCEEDED, Decision(JobState.FAILED), None),
        (AttemptOutcome.FAILED, SUCCESS, Failure.INFRA),
        (AttemptOutcome.SUCCEEDED, SUCCESS, Failure.INFRA),
        (AttemptOutcome.FAILED, Decision(JobState.FAILED), None),
    ],
)
def test_contradictions_are_refused(
    world: World, outcome: AttemptOutcome, decision: Decision, failure: Failure | None
) -> None:
    world.submit()
    claim = world.claim(world.jobs()[0])
    with pytest.raises(ValueError, match="an attempt that"):
        world.attempts.finish(claim, outcome, decision, failure)


def test_text_that_postgres_cannot_hold_is_replaced_and_noted(world: World) -> None:
    world.submit()
    claim = world.claim(world.jobs()[0])
    world.attempts.record_provenance(claim, {"model\0": "a\0b", "clock_mhz": math.nan, "gpus": ({"x": "\ud800"},)})
    assert world.one("SELECT provenance FROM attempts") == {
        "model\ufffd": "a\ufffdb",
        "clock_mhz": None,
        "gpus": [{"x": "\ufffd"}],
    }
    world.attempts.finish(claim, AttemptOutcome.FAILED, Decision(JobState.FAILED), Failure.SERVER_CRASHED, "exit\0-9")
    assert world.one("SELECT evidence FROM jobs WHERE id = :id", id=claim.job_id) == "exit\ufffd-9"
    assert world.events("cleaned") == [
        {
            "fields": [
                "provenance: NUL replaced",
                "provenance.model\ufffd: NUL replaced",
                "provenance.clock_mhz: not finite, stored as null",
                "provenance.gpus.x: not UTF-8, replaced",
            ]
        },
        {"fields": ["evidence: NUL replaced"]},
    ]


def test_a_number_that_is_not_finite_costs_only_itself(world: World) -> None:
    world.submit()
    claim = world.claim(world.jobs()[0])
    world.attempts.record_measurement(claim, a_measurement(step_time_ms=math.inf))
    world.attempts.record_measurement(claim, a_measurement(repeat=2, tok_s=None))
    world.attempts.record_measurement(claim, a_measurement(repeat=3, verifies=None, correct_drafts=None))
    rows = world.column(
        "SELECT ARRAY[valid::text, array_to_string(reasons, ','), step_time_ms::text, output_throughput_tok_s::text,"
        " acceptance_length::text] FROM measurements ORDER BY repeat"
    )
    length = str(1 + 372 / 140)
    assert rows == [
        ["false", "NOT_FINITE", None, "145", length],
        ["false", "NO_TOKENS", "21", None, length],
        ["true", "", "21", "145", None],
    ]


def test_samples_are_stored_as_the_client_saw_them(world: World) -> None:
    world.submit(hosts=(RTX, B300))
    claim = world.claim(world.jobs()[0])
    world.attempts.record_measurement(claim, a_measurement(POINTS[1]))
    assert world.column(
        "SELECT ARRAY[request_index::text, ttft_ms::text, output_tokens::text, finish_reason, error]"
        " FROM samples ORDER BY request_index"
    ) == [["0", "200", "256", "length", None], ["1", None, "256", None, "TimeoutError()"]]


def test_chaos_of_claims_losses_and_late_finishes_records_every_job_once(world: World) -> None:
    """Attempts are lost at random and finish late all the same: one accepted attempt a job, never two."""
    world.submit(a_sweep(budgets=range(1, 10)))
    chance = random.Random(7)
    abandoned: list[Claim] = []
    while left := world.column("SELECT id FROM jobs WHERE host = 'rtx6000' AND state = 'queued' ORDER BY id"):
        claim = world.claim(left[0])
        if chance.random() < 0.4:
            abandoned.append(claim)
            world.attempts.requeue_dead("rtx6000", "killed")
        else:
            world.succeed(claim)
        if abandoned:
            with pytest.raises(StaleFence):
                world.succeed(chance.choice(abandoned))
    assert abandoned
    assert world.column("SELECT count(*) FROM attempts WHERE outcome = 'succeeded' GROUP BY job_id") == [1] * 10
    assert world.one("SELECT count(*) FROM attempts WHERE outcome = 'lost'") == len(abandoned)
