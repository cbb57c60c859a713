"""For whom a cell may be given up, and what goes with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from storage_world import POINTS, RTX, World, a_measurement, a_sweep

from ddqueue.domain.coding import Answer, Outcome, Problem, Score, Scored, Suite
from ddqueue.domain.measurement import Invalid
from ddqueue.domain.queueing import Claim
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.domain.sweep import Sweep
from ddqueue.storage.references import Target

SUITE = Suite("one", (Problem("zeta", "write f", "f", "assert f()"),), "digest-1")
ANSWER = Answer("zeta", 1, 0, asked_at=datetime(2026, 1, 2, tzinfo=UTC), duration_s=1.5, content="def f(): ...")
CODE = dict.fromkeys((Outcome.PASSED, Outcome.FAILED), "def f(): ...")
GIVEN_UP = Decision(JobState.PRUNED)


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    made = World(database_url)
    yield made
    made.sql_engine.dispose()


def sweep(visits: int = 1) -> Sweep:
    plain = a_sweep(hosts=(RTX,))
    return replace(plain, measure=replace(plain.measure, visits=visits, prune=True))


def measured(
    world: World,
    job_id: int,
    values: Sequence[float] = (100.0, 101.0, 102.0),
    outcome: Outcome | None = None,
    **changes: Any,
) -> Claim:
    """An accepted attempt with these repeats at both points, and one answer of that outcome."""
    claim = world.claim(job_id)
    if outcome is not None:
        world.attempts.record_answers(claim, SUITE, [ANSWER])
        world.attempts.record_scores(claim, "v1", [Scored(ANSWER, Score(outcome, "fence", code=CODE.get(outcome)))])
    for point in POINTS:
        for repeat, tok_s in enumerate(values, start=1):
            world.attempts.record_measurement(claim, a_measurement(point, repeat, tok_s, **changes))
    world.succeed(claim)
    return claim


def test_those_measured_whole_are_rivals_with_every_valid_repeat(world: World) -> None:
    world.submit(sweep())
    baseline, first, second = world.jobs()
    measured(world, baseline, (50.0, 50.0, 51.0))
    measured(world, first)
    found = world.attempts.rivals(world.claim(second))
    assert [(one.job_id, one.label) for one in found] == [(baseline, "baseline"), (first, "b8 t4 w2048")]
    assert found[1].throughputs == dict.fromkeys(POINTS, (100.0, 101.0, 102.0))


def test_too_few_valid_repeats_make_no_rival(world: World) -> None:
    world.submit(sweep())
    baseline, first, second = world.jobs()
    measured(world, baseline, (50.0, 50.0))
    measured(world, first, reasons=(Invalid.CACHED_PREFIX,))
    assert world.attempts.rivals(world.claim(second)) == []


def test_beyond_its_training_nobody_is_a_rival(world: World) -> None:
    plain = sweep()
    cells = (plain.cells[0], replace(plain.cells[1], out_of_distribution=True), plain.cells[2])
    world.submit(replace(plain, cells=cells))
    _, first, second = world.jobs()
    measured(world, first)
    assert world.attempts.rivals(world.claim(second)) == []


@pytest.mark.parametrize(("outcome", "rivals"), [(Outcome.PASSED, 2), (Outcome.FAILED, 1), (Outcome.NO_ANSWER, 1)])
def test_fast_and_wrong_makes_no_rival(world: World, outcome: Outcome, rivals: int) -> None:
    world.submit(sweep())
    baseline, first, second = world.jobs()
    measured(world, baseline, outcome=Outcome.PASSED)
    measured(world, first, outcome=outcome)
    assert len(world.attempts.rivals(world.claim(second))) == rivals


def test_the_baseline_and_a_job_queued_again_by_hand_are_measured_whole(world: World) -> None:
    world.submit(sweep())
    baseline, first, second = world.jobs()
    measured(world, first)
    reference = world.claim(baseline)
    assert world.attempts.rivals(reference) == []
    world.succeed(reference)
    claim = world.claim(second)
    assert [one.job_id for one in world.attempts.rivals(claim)] == [first]
    world.attempts.finish(claim, AttemptOutcome.PRUNED, GIVEN_UP, None, "b8 is faster everywhere")
    assert world.control.retry(Target(world.one("SELECT sweep_id FROM jobs LIMIT 1"), second)) == (second,)
    assert world.attempts.rivals(world.claim(second)) == []


def test_giving_up_takes_the_visits_with_it_that_have_not_begun(world: World) -> None:
    world.submit(sweep(visits=3))
    second = world.column(
        "SELECT id FROM jobs WHERE cell_hash = (SELECT hash FROM cells WHERE budget = 16) ORDER BY visit"
    )
    measured(world, second[0])
    claim = world.claim(second[1])
    world.attempts.finish(claim, AttemptOutcome.PRUNED, GIVEN_UP, None, "b8 is faster everywhere")
    assert [world.state(job_id) for job_id in second] == ["succeeded", "pruned", "pruned"]
    assert world.column("SELECT DISTINCT evidence FROM jobs WHERE state = 'pruned'") == ["b8 is faster everywhere"]
    assert world.events("pruned") == [{"with_job": second[1], "why": "b8 is faster everywhere"}]
    assert world.one("SELECT count(*) FROM jobs WHERE state = 'queued'") == 6, "other cells stay"


@pytest.mark.parametrize("outcome", [AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED])
def test_only_an_attempt_that_gave_up_makes_its_job_pruned(world: World, outcome: AttemptOutcome) -> None:
    world.submit(sweep())
    claim = world.claim(world.jobs()[0])
    with pytest.raises(ValueError, match="pruned"):
        world.attempts.finish(claim, outcome, GIVEN_UP)
