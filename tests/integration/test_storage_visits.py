"""Visits and the control cell in the queue: each is a job of its own, run in the order planned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy.exc import IntegrityError
from storage_world import POINTS, RTX, World, a_measurement, a_sweep

from ddqueue.domain.failures import Failure
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.domain.sweep import Control, Measure, Sweep
from ddqueue.storage.dispatching import PostgresDispatchStore

TURNS = [
    ("baseline", 1, True),
    ("b8 t4 w2048", 1, False),
    ("b16 t4 w2048", 1, False),
    ("baseline", 2, True),
    ("b16 t4 w2048", 2, False),
    ("b8 t4 w2048", 2, False),
    ("baseline", 3, True),
]


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    made = World(database_url)
    yield made
    made.sql_engine.dispose()


def visited_twice() -> Sweep:
    """Two trees with two visits each, and the baseline as control after every two jobs."""
    sweep = a_sweep(hosts=[RTX])
    return replace(sweep, measure=Measure(POINTS, visits=2, control=Control(sweep.cells[0].cell.hash, 2)))


def test_a_host_is_woken_for_its_turns_in_order(world: World) -> None:
    submitted = world.submit(visited_twice(), hosts=[RTX])
    assert submitted.jobs == 7
    rows = world.reader.jobs(submitted.sweep_id)
    assert [(row["label"], row["visit"], row["control"]) for row in rows] == TURNS
    queue = world.reader.queue(submitted.sweep_id)
    assert [(row["label"], row["visit"], row["control"]) for row in queue] == TURNS
    dispatch = PostgresDispatchStore(world.sql_engine)
    run = []
    with dispatch.lead():
        while woken := dispatch.next_jobs(wake_again_after_s=0):
            claim = world.claim(woken[0].job_id)
            world.succeed(claim)
            run.append(claim.job_id)
    assert run == [row["job_id"] for row in rows]


def test_the_sweeps_measure_comes_back_with_the_claim(world: World) -> None:
    sweep = visited_twice()
    world.submit(sweep, hosts=[RTX])
    assert world.claim(world.jobs()[0]).measure == sweep.measure


def test_one_visit_ends_alone(world: World) -> None:
    submitted = world.submit(visited_twice(), hosts=[RTX])
    first = world.claim(world.jobs()[1])
    world.attempts.finish(first, AttemptOutcome.FAILED, Decision(JobState.FAILED), Failure.OOM_RUN, "out of memory")
    rows = {(row["label"], row["visit"]): row for row in world.reader.jobs(submitted.sweep_id)}
    assert (rows["b8 t4 w2048", 1]["state"], rows["b8 t4 w2048", 2]["state"]) == ("failed", "queued")


def test_the_views_say_which_visit_and_when(world: World) -> None:
    submitted = world.submit(visited_twice(), hosts=[RTX])
    for number, job_id in enumerate(world.jobs()[:4], start=1):
        claim = world.claim(job_id)
        for repeat, tok_s in enumerate((100.0, 102.0), start=1):
            world.attempts.record_measurement(claim, a_measurement(POINTS[0], repeat, tok_s + number))
        world.succeed(claim)
    query = "SELECT ARRAY[visit, mean_tok_s] FROM points WHERE control ORDER BY visit"
    assert world.column(query) == [[1, 102.0], [2, 105.0]]
    started = world.column("SELECT DISTINCT started_at FROM points")
    assert started == [a_measurement().started_at]
    rows = world.reader.results(submitted.sweep_id)
    assert [(row["label"], row["visit"], row["control"]) for row in rows] == TURNS
    assert [row["cell_position"] for row in rows] == [0, 1, 2, 0, 2, 1, 0]
    assert [(point["verifies"], point["correct_drafts"]) for point in rows[1]["points"]] == [(280, 744)]


def test_the_schema_refuses_the_same_visit_twice_and_visits_below_one(world: World) -> None:
    world.submit(visited_twice(), hosts=[RTX])
    again = "INSERT INTO jobs (sweep_id, cell_hash, host, parallel, tp, ep, pp, dp, visit, position)"
    again += " SELECT sweep_id, cell_hash, host, parallel, tp, ep, pp, dp, {}, 9 FROM jobs WHERE visit = 1"
    for visit, constraint in (("visit", "host_parallel_visit_key"), ("0", "jobs_visit_counts_from_one")):
        with pytest.raises(IntegrityError, match=constraint):
            world.do(again.format(visit))
