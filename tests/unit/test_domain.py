"""The closed lists: states, failures, what follows a failure; and the names of configurations."""

from __future__ import annotations

import pytest

from ddqueue.domain.configuration import Cell, Parallelism, Speculation
from ddqueue.domain.failures import POLICIES, Failure, Scope
from ddqueue.domain.retry import BACKOFF_BASE_S, BACKOFF_LIMIT_S, after_failure
from ddqueue.domain.states import FINAL, RETRYABLE_BY_HAND, TRANSITIONS, JobState, may_move
from ddqueue.domain.sweep import Point
from ddqueue.errors import UsageError


def test_every_failure_has_a_policy_and_a_remedy() -> None:
    assert set(POLICIES) == set(Failure)
    assert all(policy.remedy.endswith(".") or "`" in policy.remedy for policy in POLICIES.values())
    assert all(policy.tries == 1 for policy in POLICIES.values() if policy.scope is Scope.CONFIGURATION)


def test_what_follows_each_scope() -> None:
    assert after_failure(Failure.BAD_ARGS, 1).state is JobState.FAILED
    assert after_failure(Failure.UNSUPPORTED, 1).state is JobState.UNSUPPORTED
    assert after_failure(Failure.CANCELLED, 1).state is JobState.CANCELLED
    host = after_failure(Failure.GPU_NOT_RELEASED, 9)
    assert (host.state, host.counts, host.quarantine) == (JobState.QUEUED, False, True)
    first = after_failure(Failure.INFRA, 1)
    assert (first.state, first.delay_s) == (JobState.QUEUED, BACKOFF_BASE_S)
    assert after_failure(Failure.INFRA, 2).delay_s == 2 * BACKOFF_BASE_S
    assert after_failure(Failure.INFRA, 3).state is JobState.FAILED


def test_what_may_pass_is_tried_again_whatever_its_class() -> None:
    assert after_failure(Failure.MODEL_NOT_FOUND, 1).state is JobState.FAILED
    first = after_failure(Failure.MODEL_NOT_FOUND, 1, may_pass=True)
    assert (first.state, first.delay_s, first.counts) == (JobState.QUEUED, BACKOFF_BASE_S, True)
    assert after_failure(Failure.MODEL_NOT_FOUND, 3, may_pass=True).state is JobState.FAILED


def test_back_off_is_bounded() -> None:
    delays = [after_failure(failure, tries).delay_s for failure in Failure for tries in range(1, 30)]
    assert max(delays) <= BACKOFF_LIMIT_S


def test_the_transition_table() -> None:
    assert set(TRANSITIONS) == set(JobState)
    assert not TRANSITIONS[JobState.SUCCEEDED]
    assert all(may_move(JobState.RUNNING, state) for state in FINAL)
    assert {state for state in FINAL if may_move(state, JobState.QUEUED)} == RETRYABLE_BY_HAND
    assert not may_move(JobState.QUEUED, JobState.SUCCEEDED)


def test_equal_servers_have_equal_hashes() -> None:
    one = Cell("m", "e", Speculation(8, 8, 4, 2048), {"a": 1.0, "b": True}, {"X": "1"})
    same = Cell("m", "e", Speculation(8, 8, 4, 2048), {"b": True, "a": 1}, {"X": "1"})
    assert one.hash == same.hash
    assert len(one.hash) == 12
    assert Cell.from_canonical(one.canonical()).hash == one.hash
    others = [
        Cell("m", "e", Speculation(8, 8, 4, None), {"a": 1, "b": True}, {"X": "1"}),
        Cell("m", "e", None, {"a": 1, "b": True}, {"X": "1"}),
        Cell("m", "e", Speculation(8, 8, 4, 2048), {"a": 1, "b": True}, {"X": "0"}),
        Cell("m", "e", Speculation(8, 8, 4, 2048), {"a": "1", "b": True}, {"X": "1"}),
    ]
    assert len({one.hash, *(other.hash for other in others)}) == 5


def test_the_names_people_use() -> None:
    assert Cell("m", "e", Speculation(8, 8, 4, 2048)).label(8) == "b8 t4 w2048"
    assert Cell("m", "e", Speculation(8, 8, 4, None)).label(8) == "b8 t4 none"
    assert Cell("m", "e", Speculation(16, 32, 4, 2048)).label(8) == "bs16 b32 t4 w2048"
    assert Cell("m", "e").label(8) == "baseline"
    common = Cell("m", "e", None, {"mem-fraction-static": 0.85})
    axis = Cell("m", "e", None, {"mem-fraction-static": 0.9})
    assert axis.label(8, common) == "baseline mem-fraction-static=0.9"
    assert common.label(8, common) == "baseline"
    eagle = Cell("m", "e", None, {"speculative-algorithm": "EAGLE"})
    assert not eagle.is_baseline
    assert eagle.label(8, common) == "speculative-algorithm=EAGLE"


@pytest.mark.parametrize(
    ("label", "sizes", "gpus"),
    [("TP8", (8, 1, 1), 8), ("EP8", (8, 8, 1), 8), ("EP4", (8, 4, 1), 8), ("PP8", (1, 1, 8), 8), ("tp4", (4, 1, 1), 4)],
)
def test_parallelism(label: str, sizes: tuple[int, int, int], gpus: int) -> None:
    parallelism = Parallelism.parse(label, 8)
    assert (parallelism.tp, parallelism.ep, parallelism.pp) == sizes
    assert parallelism.gpus == gpus


@pytest.mark.parametrize("label", ["", "XP8", "TP0", "TP-1", "TP8,EP8", "8"])
def test_no_parallelism(label: str) -> None:
    with pytest.raises(UsageError, match="TP8"):
        Parallelism.parse(label, 8)


def test_the_column_heads_of_points() -> None:
    assert [Point(1, 60, 256).label, Point(32, 4096, 256).label, Point(1, 1000, 1).label] == [
        "C=1 60",
        "C=32 4k",
        "C=1 1000",
    ]
