"""When a host is shut: a row of suspicious failures of different configurations, and nothing less."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddqueue.domain.breaker import LIMIT, SUSPICIONS, EndedAttempt, Suspicion, judge
from ddqueue.domain.failures import Failure
from ddqueue.domain.states import AttemptOutcome

CRASHED, HANG, OOM, LOST = Failure.SERVER_CRASHED, Failure.NCCL_HANG, Failure.OOM_LOAD, Failure.GPU_LOST


def ended(*story: Failure | AttemptOutcome | tuple[Failure, str]) -> list[EndedAttempt]:
    """A host's attempts, told oldest first, each of a configuration of its own unless one is named."""
    attempts = []
    for number, what in enumerate(story):
        failure, cell = what if isinstance(what, tuple) else (what, f"cell-{number}")
        if isinstance(failure, AttemptOutcome):
            attempts.append(EndedAttempt(number, cell, failure))
        else:
            attempts.append(EndedAttempt(number, cell, AttemptOutcome.FAILED, failure))
    return attempts[::-1]


def test_the_table_says_of_every_class_what_it_says_of_the_host() -> None:
    assert set(SUSPICIONS) == set(Failure)
    by_suspicion = {
        suspicion: {failure.value for failure, it in SUSPICIONS.items() if it is suspicion} for suspicion in Suspicion
    }
    assert by_suspicion[Suspicion.HOST] == {"GPU_BUSY", "GPU_NOT_RELEASED", "GPU_LOST", "SHM_FULL"}
    assert by_suspicion[Suspicion.SHARED] == {
        "NCCL_HANG",
        "JIT_TIMEOUT",
        "READY_TIMEOUT",
        "SERVER_CRASHED",
        "SERVER_STALLED",
        "CLIENT_BOUND",
        "INFRA",
    }


@pytest.mark.parametrize(
    "story",
    [
        [CRASHED, HANG, CRASHED],
        [LOST, CRASHED, Failure.INFRA],
        [(LOST, "one"), (LOST, "one"), (LOST, "one")],
        [AttemptOutcome.SUCCEEDED, CRASHED, CRASHED, CRASHED],
        [CRASHED, OOM, CRASHED, Failure.BAD_ARGS, AttemptOutcome.CANCELLED, CRASHED],
        [(CRASHED, "one"), (CRASHED, "one"), (HANG, "two"), (CRASHED, "three")],
        [(CRASHED, "one"), (LOST, "one"), (HANG, "two")],
    ],
)
def test_a_row_of_different_failures_shuts_the_host(story: list[Failure]) -> None:
    tripped = judge(ended(*story))
    assert tripped is not None
    assert len(tripped.attempts) == LIMIT


@pytest.mark.parametrize(
    "story",
    [
        [],
        [CRASHED, CRASHED],
        [CRASHED, CRASHED, AttemptOutcome.SUCCEEDED],
        [CRASHED, CRASHED, AttemptOutcome.SUCCEEDED, CRASHED, CRASHED],
        [(CRASHED, "one"), (CRASHED, "one"), (CRASHED, "one"), (HANG, "one")],
        [(CRASHED, "one"), (CRASHED, "one"), (CRASHED, "two"), (CRASHED, "two")],
        [OOM, OOM, OOM, Failure.BAD_ARGS, Failure.CONFIG_OVERRIDDEN, Failure.UNSUPPORTED],
        [Failure.PORT_BUSY, Failure.PORT_BUSY, Failure.PORT_BUSY],
        [AttemptOutcome.LOST, AttemptOutcome.LOST, AttemptOutcome.LOST],
        [AttemptOutcome.CANCELLED, AttemptOutcome.CANCELLED, AttemptOutcome.CANCELLED],
    ],
)
def test_less_than_that_does_not(story: list[Failure | AttemptOutcome]) -> None:
    assert judge(ended(*story)) is None


def test_the_reason_names_the_jobs_in_the_order_in_which_they_failed() -> None:
    tripped = judge(ended(CRASHED, HANG, LOST))
    assert tripped is not None
    assert tripped.reason == (
        "circuit breaker: 3 suspicious failures in a row, nothing succeeded between: "
        "job 0 SERVER_CRASHED, job 1 NCCL_HANG, job 2 GPU_LOST"
    )


ATTEMPTS = st.lists(
    st.builds(
        EndedAttempt,
        st.integers(1, 5),
        st.sampled_from(["a", "b", "c"]),
        st.just(AttemptOutcome.FAILED),
        st.sampled_from(Failure),
    ),
    max_size=12,
)


@given(ATTEMPTS)
def test_what_came_before_a_success_never_matters(before: list[EndedAttempt]) -> None:
    assert judge([*ended(CRASHED, CRASHED), *ended(AttemptOutcome.SUCCEEDED), *before]) is None


@given(ATTEMPTS)
def test_one_configuration_alone_never_shuts_a_host_without_a_fault_of_the_host(row: list[EndedAttempt]) -> None:
    alone = [
        EndedAttempt(it.job_id, "a", it.outcome, it.failure)
        for it in row
        if it.failure is not None and SUSPICIONS[it.failure] is not Suspicion.HOST
    ]
    assert judge(alone) is None
