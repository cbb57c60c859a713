"""The views and the reading side: what is ranked, what is marked, what is said about hosts and jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from storage_world import POINTS, World, a_measurement

from ddqueue.domain.failures import Failure
from ddqueue.domain.measurement import Invalid
from ddqueue.domain.queueing import Claim, PhaseRecord
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.errors import UsageError

FAILED = Decision(JobState.FAILED)


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    world = World(database_url)
    yield world
    world.sql_engine.dispose()


def measure(world: World, claim: Claim, *tok_s: float) -> None:
    for repeat, value in enumerate(tok_s, start=1):
        world.attempts.record_measurement(claim, a_measurement(POINTS[0], repeat, value))


def test_results_hold_one_row_a_job_with_numbers_of_accepted_attempts_only(world: World) -> None:
    submitted = world.submit()
    first, second, third = world.jobs()
    lost = world.claim(first)
    measure(world, lost, 1.0, 1.0)
    world.attempts.requeue_dead("rtx6000", "killed")
    accepted = world.claim(first)
    measure(world, accepted, 144.0, 146.0)
    world.attempts.record_measurement(accepted, a_measurement(POINTS[0], 3, 900.0, reasons=(Invalid.SHORT_OUTPUT,)))
    world.succeed(accepted)
    failed = world.claim(second)
    measure(world, failed, 145.0)
    world.attempts.finish(failed, AttemptOutcome.FAILED, FAILED, Failure.OOM_RUN, "out of memory")

    rows = [row for row in world.reader.results(submitted.sweep_id) if row["host"] == "rtx6000"]
    assert [(row["job_id"], row["label"], row["state"], row["failure"], row["attempts"]) for row in rows] == [
        (first, "baseline", "succeeded", None, 2),
        (second, "b8 t4 w2048", "failed", "OOM_RUN", 1),
        (third, "b16 t4 w2048", "queued", None, 0),
    ]
    (point,) = rows[0]["points"]
    assert (point["concurrency"], point["context_tokens"], point["output_tokens_asked"]) == (1, 60, 256)
    assert (point["n"], point["n_invalid"], point["mean_tok_s"], point["values_tok_s"]) == (2, 1, 145.0, [144.0, 146.0])
    assert point["sd_tok_s"] == pytest.approx(2**0.5)
    assert (rows[0]["n_valid"], rows[0]["n_invalid"]) == (2, 1)
    assert rows[1]["points"] is None
    assert {row["simulated"] for row in rows} == {True}


def test_the_view_points_shows_a_failed_attempts_numbers_as_not_accepted(world: World) -> None:
    world.submit()
    failed = world.claim(world.jobs()[0])
    measure(world, failed, 145.0)
    query = "SELECT ARRAY[accepted::text, attempt_outcome, n::text, mean_tok_s::text, sd_tok_s::text] FROM points"
    assert world.column(query) == [["false", None, "1", "145", None]]
    world.attempts.finish(failed, AttemptOutcome.FAILED, FAILED, Failure.OOM_RUN, "out of memory")
    assert world.column(query) == [["false", "failed", "1", "145", None]]


def test_acceptance_is_by_sums_never_by_means(world: World) -> None:
    submitted = world.submit()
    claim = world.claim(world.jobs()[0])
    # 100 tokens in 25 verifies and 10 in 10: 110 tokens / 35 verifies = 3.14, where the mean of 4.0 and 1.0 is 2.5.
    for repeat, (correct, verifies) in enumerate([(75, 25), (0, 10)], start=1):
        changes = {"correct_drafts": correct, "verifies": verifies, "acceptance_length": 1 + correct / verifies}
        world.attempts.record_measurement(claim, a_measurement(POINTS[0], repeat, **changes))
    world.succeed(claim)
    (row,) = [row for row in world.reader.results(submitted.sweep_id) if row["job_id"] == claim.job_id]
    assert row["acceptance_length"] == pytest.approx(110 / 35)
    assert world.one("SELECT acceptance_length FROM points") == pytest.approx(110 / 35)


def test_without_speculation_there_is_no_acceptance(world: World) -> None:
    submitted = world.submit()
    claim = world.claim(world.jobs()[0])
    bare: dict[str, Any] = {
        "correct_drafts": None,
        "verifies": None,
        "acceptance_length": None,
        "draft_histogram": None,
    }
    world.attempts.record_measurement(claim, a_measurement(**bare))
    world.succeed(claim)
    (row,) = [row for row in world.reader.results(submitted.sweep_id) if row["job_id"] == claim.job_id]
    assert row["acceptance_length"] is None


def test_hosts_say_what_they_work_on(world: World) -> None:
    world.submit()
    claim = world.claim(world.jobs()[1], lease_ttl_s=0.0)
    world.attempts.record_phase(claim, PhaseRecord("launch", datetime(2025, 1, 2, tzinfo=UTC), 1.0))
    world.control.hold("b300", "firmware", 3600.0)
    b300, rtx = world.reader.hosts()
    assert (rtx["job_id"], rtx["sweep"], rtx["label"], rtx["phase"]) == (
        claim.job_id,
        "kimi-ddtree@1",
        "b8 t4 w2048",
        "launch",
    )
    assert (rtx["lease_expired"], rtx["cancel_requested"], rtx["queued"]) == (True, False, 2)
    assert (b300["job_id"], b300["hold_reason"], b300["queued"]) == (None, "firmware", 3)


def test_sweeps_count_their_jobs_by_state(world: World) -> None:
    world.submit()
    world.succeed(world.claim(world.jobs()[0]))
    world.claim(world.jobs()[1])
    (sweep,) = world.reader.sweeps()
    counts = {state.value: sweep[state.value] for state in JobState}
    assert counts == {
        "queued": 4,
        "running": 1,
        "succeeded": 1,
        "failed": 0,
        "unsupported": 0,
        "cancelled": 0,
        "pruned": 0,
    }
    assert (sweep["name"], sweep["revision"], sweep["jobs"]) == ("kimi-ddtree", 1, 6)


def test_a_job_is_shown_with_everything_that_happened(world: World) -> None:
    world.submit()
    job_id = world.jobs()[0]
    world.claim(job_id)
    world.attempts.requeue_dead("rtx6000", "killed")
    claim = world.claim(job_id)
    world.attempts.record_configuration(claim, {"budget": 8}, {"budget": 6}, {"budget": [8, 6]})
    world.attempts.record_phase(claim, PhaseRecord("launch", datetime(2025, 1, 2, tzinfo=UTC), 1.5, "pid 7"))
    measure(world, claim, 145.0)
    world.succeed(claim)
    job = world.reader.job(job_id)
    assert (job["state"], job["sweep"], job["label"], job["tries"]) == ("succeeded", "kimi-ddtree", "baseline", 1)
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["lost", "succeeded"]
    second = job["attempts"][1]
    assert second["difference"] == {"budget": [8, 6]}
    assert [(phase["name"], phase["detail"]) for phase in second["phases"]] == [("launch", "pid 7")]
    assert [row["output_throughput_tok_s"] for row in second["measurements"]] == [145.0]
    assert [event["kind"] for event in job["events"]] == ["claimed", "lost", "claimed", "finished"]
    assert json.loads(json.dumps(job, default=str))["attempts"][0]["phases"] == []
    with pytest.raises(UsageError, match="there is no job 999"):
        world.reader.job(999)


def test_every_column_that_people_query_says_its_unit(world: World) -> None:
    bare = world.column(
        "SELECT c.relname || '.' || a.attname FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid"
        " WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v') AND a.attnum > 0"
        " AND a.attname ~ '_(s|ms|tok_s|tokens|share|length|window|size)$'"
        " AND col_description(c.oid, a.attnum) IS NULL ORDER BY 1"
    )
    assert bare == []
