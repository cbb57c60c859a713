"""Readings that fooled other benchmarks, each with the value that is right."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ddqueue.domain.measurement import Invalid, Measurement, PointRun, RequestRecord
from ddqueue.domain.metrics.acceptance_length import acceptance_length, brings_no_benefit
from ddqueue.domain.metrics.itl import intervals, itl_ms
from ddqueue.domain.metrics.summary import measure
from ddqueue.domain.metrics.tpot import tpot_ms
from ddqueue.domain.statistics import Outlier, outliers
from ddqueue.domain.sweep import Point

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def request(index: int = 0, output: int = 1024, **fields: object) -> RequestRecord:
    base = RequestRecord(
        index=index, started_s=0.0, finished_s=4.0, prompt_tokens=1024, output_tokens=output, cached_tokens=0,
        arrivals=((1.0, 1), (4.0, output)) if output > 1 else ((1.0, 1),), verifies=25, correct_drafts=75,
        draft_histogram=(0, 0, 0, 25), finish_reason="length", tag="ours",
    )  # fmt: skip
    return replace(base, **fields)  # type: ignore[arg-type]


def measured(*requests: RequestRecord, asked: int = 1024) -> Measurement:
    return measure(PointRun(Point(len(requests), 1024, asked), 1, NOW, 60.0, requests), "ours")


def test_twelve_tokens_in_thirty_milliseconds_are_two_and_a_half_a_token() -> None:
    streamed = request(output=13, arrivals=((0.50, 1), (0.51, 5), (0.52, 9), (0.53, 13)))
    latency, per_request = itl_ms([streamed]), tpot_ms([streamed])
    assert latency is not None
    assert per_request is not None
    assert (latency.mean, latency.p50, latency.p99, per_request.mean) == pytest.approx((2.5, 2.5, 2.5, 2.5))
    rates = [1 / seconds for seconds, _ in intervals([streamed])]
    assert max(rates) == pytest.approx(400)
    assert max(rates) >= 12 / 0.03 - 1e-6


def test_one_burst_does_not_make_the_average_faster_than_the_peak() -> None:
    bursty = request(output=21, arrivals=((0.0, 1), (0.001, 17), (0.9, 18), (1.0, 21)))
    latency = itl_ms([bursty])
    assert latency is not None
    peak, average = max(1 / seconds for seconds, _ in intervals([bursty])), 1000 / latency.mean
    assert (peak, average) == (pytest.approx(16_000), pytest.approx(20))


def test_a_prompt_that_was_seen_before_is_not_prefill() -> None:
    again = measured(request(cached_tokens=1000, prompt_tokens=1024))
    assert again.cached_share == pytest.approx(1000 / 1024)
    assert again.reasons == (Invalid.CACHED_PREFIX,)


def test_a_first_repeat_that_compiled_stands_out_among_its_fellows() -> None:
    assert outliers([3.3, 0.66, 0.65, 0.66, 0.65, 0.66])[0] is Outlier.SEVERE


@pytest.mark.parametrize("got", [1, 768, 1023])
def test_an_answer_shorter_than_asked_is_not_comparable(got: int) -> None:
    assert measured(request(), request(1, output=got)).reasons == (Invalid.SHORT_OUTPUT,)


@pytest.mark.parametrize(
    "error", ["ServerError: CUDA error", "ClosedEarly: no [DONE]", "HttpError: 503", "TimeoutError: "]
)
def test_of_a_request_that_failed_neither_time_nor_tokens_count(error: str) -> None:
    broken = request(1, output=500, error=error, finished_s=90.0, arrivals=((80.0, 500),), correct_drafts=0)
    alone, beside = measured(request()), measured(request(), broken)
    assert beside.reasons == (Invalid.REQUESTS_FAILED,)
    assert (beside.requests_completed, beside.requests_failed) == (1, 1)
    numbers = [
        (one.output_throughput_tok_s, one.ttft_ms, one.itl_ms, one.e2e_ms, one.acceptance_length, one.output_tokens)
        for one in (alone, beside)
    ]
    assert numbers[0] == numbers[1]
    assert beside.requests[1].error == error


def test_thirty_two_failures_are_nulls_and_no_zero() -> None:
    none_left = measured(*(request(index, error="HttpError: 500", output_tokens=None) for index in range(32)))
    assert (none_left.requests_completed, none_left.requests_failed) == (0, 32)
    assert none_left.reasons == (Invalid.REQUESTS_FAILED, Invalid.NO_TOKENS)
    assert none_left.output_throughput_tok_s is None
    assert none_left.total_throughput_tok_s is None
    assert none_left.ttft_ms is None
    assert none_left.acceptance_length is None


def test_one_field_that_is_not_a_number_loses_nothing_else() -> None:
    odd = measured(request(cached_tokens=None, not_finite=("cached_tokens",)), request(1, error="ValueError: a\0b"))
    assert odd.reasons == (Invalid.REQUESTS_FAILED, Invalid.NOT_FINITE)
    assert odd.cached_share is None
    assert odd.output_throughput_tok_s == pytest.approx(1024 / 4)
    assert odd.requests[1].error == "ValueError: a\N{SYMBOL FOR NULL}b"


def test_of_32_streams_one_falls_silent_and_31_are_reported() -> None:
    silent = request(31, error="IdleTimeout: silent for 60 s after the answer had begun", output_tokens=None)
    reported = measured(*(request(index) for index in range(31)), silent)
    assert (reported.requests_completed, reported.output_tokens) == (31, 31 * 1024)
    assert reported.output_throughput_tok_s == pytest.approx(31 * 1024 / 4)
    assert reported.reasons == (Invalid.REQUESTS_FAILED,)


def test_an_error_whose_text_is_empty_keeps_its_type() -> None:
    assert measured(request(), request(1, error="TimeoutError: ")).requests[1].error == "TimeoutError: "


def test_acceptance_is_by_sums_and_not_by_means() -> None:
    # 100 tokens in 25 verifies and 10 in 10: each verify gives one token of the target's own.
    pair = [request(verifies=25, correct_drafts=75), request(1, verifies=10, correct_drafts=0)]
    assert acceptance_length(pair) == pytest.approx(110 / 35)
    assert f"{acceptance_length(pair):.2f}" == "3.14"


def test_acceptance_that_nobody_reported_is_null() -> None:
    plain = measured(request(verifies=None, correct_drafts=None, draft_histogram=None))
    assert (plain.acceptance_length, plain.verifies, plain.draft_histogram) == (None, None, None)
    assert plain.valid
    assert not brings_no_benefit(plain.acceptance_length)


def test_a_drafter_of_which_nothing_is_accepted_brings_no_benefit() -> None:
    idle = measured(request(verifies=1023, correct_drafts=0, draft_histogram=(1023, 0, 0)))
    assert idle.acceptance_length == 1.0
    assert brings_no_benefit(idle.acceptance_length)
    assert not brings_no_benefit(measured(request(verifies=1023, correct_drafts=1)).acceptance_length)
