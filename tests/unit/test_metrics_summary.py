"""The measurement of a repeat, and every named reason why it is not ranked."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ddqueue.domain.measurement import Invalid, PointRun, RequestRecord
from ddqueue.domain.metrics.summary import measure
from ddqueue.domain.sweep import Point

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POINT = Point(concurrency=2, context=60, output=8)
GOOD = RequestRecord(
    index=0, started_s=0.0, finished_s=2.0, prompt_tokens=60, output_tokens=8, cached_tokens=0,
    arrivals=((1.0, 2), (2.0, 8)), verifies=2, correct_drafts=4, draft_histogram=(0, 0, 2), finish_reason="length",
    tag="ours",
)  # fmt: skip


def run(*requests: RequestRecord) -> PointRun:
    return PointRun(POINT, repeat=1, started_at=NOW, wall_s=7.0, requests=requests)


def test_a_good_run() -> None:
    measured = measure(run(GOOD, replace(GOOD, index=1)), "ours")
    assert measured.valid
    assert (measured.point, measured.repeat, measured.started_at, measured.wall_s) == (POINT, 1, NOW, 2.0)
    assert (measured.requests_completed, measured.requests_failed) == (2, 0)
    assert (measured.prompt_tokens, measured.output_tokens, measured.cached_share) == (120, 16, 0.0)
    assert (measured.output_throughput_tok_s, measured.total_throughput_tok_s) == (8.0, 68.0)
    assert (measured.acceptance_length, measured.verifies, measured.correct_drafts) == (3.0, 4, 8)
    assert measured.draft_histogram == (0, 0, 4)
    assert measured.step_time_ms == pytest.approx(3.0 * 1000 / 6)
    assert measured.ttft_ms is not None
    assert measured.ttft_ms.mean == pytest.approx(1000)


def test_a_baseline_has_the_step_time_of_one_token_and_no_acceptance() -> None:
    plain = replace(GOOD, verifies=None, correct_drafts=None, draft_histogram=None)
    measured = measure(run(plain), "ours", baseline=True)
    assert measured.valid
    assert (measured.acceptance_length, measured.draft_histogram) == (None, None)
    assert measured.step_time_ms == pytest.approx(1000 / 6)
    assert measure(run(plain), "ours").step_time_ms is None


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (replace(GOOD, error="IdleTimeout: silent"), Invalid.REQUESTS_FAILED),
        (replace(GOOD, output_tokens=6), Invalid.SHORT_OUTPUT),
        (replace(GOOD, output_tokens=None), Invalid.SHORT_OUTPUT),
        (replace(GOOD, tag="theirs"), Invalid.WRONG_SERVER),
        (replace(GOOD, tag=None), Invalid.WRONG_SERVER),
        (replace(GOOD, cached_tokens=50), Invalid.CACHED_PREFIX),
        (replace(GOOD, not_finite=("cached_tokens",)), Invalid.NOT_FINITE),
    ],
)
def test_one_bad_request_names_its_reason_and_only_that(bad: RequestRecord, reason: Invalid) -> None:
    measured = measure(run(GOOD, bad), "ours")
    assert measured.reasons == (reason,)
    assert len(measured.requests) == 2


def test_a_server_we_did_not_start_has_no_tag_to_check() -> None:
    assert measure(run(replace(GOOD, tag="default")), None).valid


def test_the_cached_limit_is_the_callers() -> None:
    cached = replace(GOOD, cached_tokens=6)
    assert measure(run(cached), "ours", cached_limit=0.1).valid
    assert measure(run(cached), "ours").reasons == (Invalid.CACHED_PREFIX,)


def test_when_everything_failed_there_are_no_numbers_and_no_zeros() -> None:
    failed = replace(GOOD, error="HttpError: 503", output_tokens=None, arrivals=())
    measured = measure(run(failed, failed), "ours")
    assert measured.reasons == (Invalid.REQUESTS_FAILED, Invalid.NO_TOKENS)
    assert (measured.requests_completed, measured.requests_failed, measured.wall_s) == (0, 2, 7.0)
    numbers = (
        measured.output_throughput_tok_s, measured.total_throughput_tok_s, measured.ttft_ms, measured.itl_ms,
        measured.e2e_ms, measured.acceptance_length, measured.verifies, measured.correct_drafts, measured.cached_share,
        measured.draft_histogram, measured.step_time_ms,
    )  # fmt: skip
    assert numbers == (None,) * len(numbers)


def test_a_number_that_is_not_finite_is_null_with_a_reason_and_loses_nothing_else() -> None:
    measured = measure(run(replace(GOOD, arrivals=((1.0, 2), (float("inf"), 8)))), "ours")
    assert measured.reasons == (Invalid.NOT_FINITE,)
    assert (measured.itl_ms, measured.step_time_ms) == (None, None)
    assert (measured.output_throughput_tok_s, measured.acceptance_length) == (4.0, 3.0)


def test_nul_in_text_is_replaced_visibly() -> None:
    measured = measure(run(replace(GOOD, error="ServerError: a\0b", finish_reason="\0", tag="ours")), "ours")
    assert measured.requests[0].error == "ServerError: a\N{SYMBOL FOR NULL}b"
    assert measured.requests[0].finish_reason == "\N{SYMBOL FOR NULL}"
