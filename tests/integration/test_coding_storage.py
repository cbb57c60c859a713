"""Answers and scores in Postgres: raw and fenced, judged again without losing the first judgement."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError
from storage_world import World, at_once

from ddqueue.domain.coding import Answer, Outcome, Problem, Score, Scored, Suite
from ddqueue.domain.failures import Failure
from ddqueue.domain.queueing import Claim
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.errors import StaleFence
from ddqueue.storage.rescoring import PostgresScoreStore

SUITE = Suite("two", (Problem("zeta", "write f", "f", "assert f()"), Problem("alpha", "write g", "g", "")), "digest-1")
PASSED, FAILED = Score(Outcome.PASSED, "fence", code="def f(): ..."), Score(Outcome.FAILED, "fence", "1 != 2", "x")


def an_answer(problem: str = "zeta", concurrency: int = 1, sample: int = 0, **changes: Any) -> Answer:
    values = {
        "asked_at": datetime(2026, 1, 2, tzinfo=UTC),
        "duration_s": 1.5,
        "content": f"{problem} {sample}",
        "reasoning": "hmm",
        "finish_reason": "stop",
        "prompt_tokens": 11,
        "output_tokens": 42,
    }
    return Answer(problem, concurrency, sample, **{**values, **changes})


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    world = World(database_url)
    world.submit()
    yield world
    world.sql_engine.dispose()


@pytest.fixture
def claim(world: World) -> Claim:
    return world.claim(world.jobs()[0])


def test_answers_are_kept_as_they_came(world: World, claim: Claim) -> None:
    odd = an_answer("alpha", content="a\0b", reasoning=None, error="ClosedEarly: x", tag="t", output_tokens=None)
    for _ in range(2):  # a call repeated after a lost answer
        world.attempts.record_answers(claim, SUITE, [an_answer(), odd])
    store = PostgresScoreStore(world.sql_engine)
    assert store.answers(claim.sweep_id) == [], "a running attempt judges its answers itself"
    world.succeed(claim)
    first, second = store.answers(claim.sweep_id)
    assert first.answer == an_answer()
    assert second.answer == an_answer(
        "alpha",
        content="a\N{REPLACEMENT CHARACTER}b",
        reasoning=None,
        error="ClosedEarly: x",
        tag="t",
        output_tokens=None,
    )
    assert (first.suite, first.suite_digest, first.label, first.attempt) == ("two", "digest-1", "baseline", 1)
    assert (first.score, second.score) == (None, None)
    assert world.column("SELECT DISTINCT simulated FROM answers") == [True]
    assert world.events("cleaned")[:1] == [{"fields": ["answers[alpha, C=1, 0].content: NUL replaced"]}]


def test_a_stale_fence_stores_nothing(world: World, claim: Claim) -> None:
    world.attempts.record_answers(claim, SUITE, [an_answer()])
    world.attempts.requeue_dead(claim.host, "the attempt died")
    with pytest.raises(StaleFence):
        world.attempts.record_answers(claim, SUITE, [an_answer("alpha")])
    with pytest.raises(StaleFence):
        world.attempts.record_scores(claim, "v1", [Scored(an_answer(), PASSED)])
    assert (world.one("SELECT count(*) FROM answers"), world.one("SELECT count(*) FROM scores")) == (1, 0)


def finished(world: World, claim: Claim) -> None:
    """Two problems alone, and each twice at C=4: one passed, one failed, one unasked, one ungraded."""
    alone = [an_answer(), an_answer("alpha", content=None, finish_reason="length")]
    loaded = [an_answer(name, 4, sample) for sample in (0, 1) for name in ("zeta", "alpha")]
    for answers in (alone, loaded):
        world.attempts.record_answers(claim, SUITE, answers)
    scores = [PASSED, Score(Outcome.NO_ANSWER), PASSED, FAILED, Score(Outcome.NOT_ASKED), Score(Outcome.NOT_GRADED)]
    scored = [Scored(answer, score) for answer, score in zip([*alone, *loaded], scores, strict=True)]
    for _ in range(2):
        world.attempts.record_scores(claim, "ddqueue 1", scored)
    world.succeed(claim)


def coding(world: World) -> list[dict[str, Any]]:
    """The rows of the view `coding`."""
    return world.column("SELECT to_jsonb(coding) FROM coding ORDER BY job_id, concurrency")


def test_the_view_counts_by_the_newest_score(world: World, claim: Claim) -> None:
    finished(world, claim)
    alone, loaded = coding(world)
    counts = (
        "asked",
        "judged",
        "passed",
        "failed",
        "no_code",
        "no_answer",
        "not_asked",
        "not_graded",
        "score_revision",
    )
    assert [alone[name] for name in counts] == [2, 2, 1, 0, 0, 1, 0, 0, 1]
    assert [loaded[name] for name in counts] == [4, 2, 1, 1, 0, 0, 1, 1, 1]
    assert (alone["suite"], alone["suite_digest"], alone["accepted"], alone["simulated"]) == (
        "two",
        "digest-1",
        True,
        True,
    )
    assert loaded["outcomes"] == {"zeta": ["passed", "not_asked"], "alpha": ["failed", "not_graded"]}

    store = PostgresScoreStore(world.sql_engine)
    ungraded = store.answers(claim.sweep_id)[-1]
    assert ungraded.score is Outcome.NOT_GRADED
    store.add_scores("ddqueue 2", {ungraded.answer_id: PASSED})
    _, loaded = coding(world)
    assert [loaded[name] for name in counts] == [4, 3, 2, 1, 0, 0, 1, 0, 2]
    history = "SELECT revision || ' ' || scorer || ' ' || outcome FROM scores WHERE answer_id = :id ORDER BY revision"
    assert world.column(history, id=ungraded.answer_id) == ["1 ddqueue 1 not_graded", "2 ddqueue 2 passed"]


def test_results_carry_the_scores_of_accepted_attempts(world: World, claim: Claim) -> None:
    finished(world, claim)
    rows = world.reader.results(claim.sweep_id)
    (row,) = [row for row in rows if row["job_id"] == claim.job_id]
    assert [(one["concurrency"], one["passed"], one["judged"]) for one in row["coding"]] == [(1, 1, 2), (4, 1, 2)]
    assert list(row["coding"][0]["outcomes"]) == ["zeta", "alpha"], "in the order asked"
    assert {row["coding_asked"] for row in rows} == {False}
    assert [other["coding"] for other in rows if other is not row] == [None] * (len(rows) - 1)


def test_answers_of_a_failed_attempt_are_kept_and_not_shown(world: World, claim: Claim) -> None:
    world.attempts.record_answers(claim, SUITE, [an_answer()])
    failed = Decision(JobState.FAILED)
    world.attempts.finish(claim, AttemptOutcome.FAILED, failed, Failure.SERVER_CRASHED, "exit code 1")
    (row,) = coding(world)
    assert (row["accepted"], row["asked"], row["judged"], row["not_graded"]) == (False, 1, 0, 1)
    assert [one["coding"] for one in world.reader.results(claim.sweep_id) if one["job_id"] == claim.job_id] == [None]
    assert len(PostgresScoreStore(world.sql_engine).answers(claim.sweep_id)) == 1


def test_two_rescores_at_once_are_two_revisions(world: World, claim: Claim) -> None:
    finished(world, claim)
    store = PostgresScoreStore(world.sql_engine)
    ids = [one.answer_id for one in store.answers(claim.sweep_id)]
    at_once([lambda: store.add_scores("a", dict.fromkeys(ids, PASSED))] * 4)
    assert world.column(
        "SELECT DISTINCT array_agg(revision ORDER BY revision)::text FROM scores GROUP BY answer_id"
    ) == ["{1,2,3,4,5}"]


@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        ("UPDATE answers SET concurrency = 0", "answers_counts_positive"),
        ("UPDATE answers SET sample = -1", "answers_counts_positive"),
        ("UPDATE answers SET duration_s = 'NaN'", "answers_duration_finite"),
        ("UPDATE answers SET output_tokens = -1", "answers_tokens_positive"),
        ("UPDATE answers SET sample = 0", "answers_once"),
        ("UPDATE scores SET outcome = 'wrong'", "scores_outcome_known"),
        ("UPDATE scores SET outcome = 'passed', code = NULL", "scores_judged_by_running"),
        ("UPDATE scores SET revision = 0", "scores_revision_positive"),
    ],
)
def test_the_schema_refuses(world: World, claim: Claim, statement: str, constraint: str) -> None:
    finished(world, claim)
    with pytest.raises(DBAPIError, match=constraint):
        world.do(statement)
