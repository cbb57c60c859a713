"""Each metric against numbers worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddqueue.domain.latency_limits import LatencyLimits
from ddqueue.domain.measurement import RequestRecord
from ddqueue.domain.metrics.acceptance_length import (
    acceptance_length,
    brings_no_benefit,
    correct_drafts,
    verifies,
)
from ddqueue.domain.metrics.break_even import break_even_acceptance, margin
from ddqueue.domain.metrics.cached_share import cached_share
from ddqueue.domain.metrics.catalogue import METRICS
from ddqueue.domain.metrics.draft_histogram import acceptance_by_depth, draft_histogram
from ddqueue.domain.metrics.e2e import e2e_ms
from ddqueue.domain.metrics.energy import energy_per_token_j
from ddqueue.domain.metrics.goodput import goodput_requests_s
from ddqueue.domain.metrics.goodput_output import goodput_output_tok_s
from ddqueue.domain.metrics.itl import intervals, itl_ms
from ddqueue.domain.metrics.output_throughput import output_throughput_tok_s
from ddqueue.domain.metrics.step_time import step_time_ms
from ddqueue.domain.metrics.total_throughput import total_throughput_tok_s
from ddqueue.domain.metrics.tpot import tpot_ms
from ddqueue.domain.metrics.ttft import ttft_ms
from ddqueue.domain.metrics.window import wall_s


def record(**fields: object) -> RequestRecord:
    return RequestRecord(**({"index": 0, "started_s": 0.0, "finished_s": 1.0} | fields))  # type: ignore[arg-type]


FAST = record(
    started_s=0.0, finished_s=1.0, prompt_tokens=60, output_tokens=13, cached_tokens=6,
    arrivals=((0.2, 1), (0.21, 5), (0.22, 9), (0.23, 13)), verifies=25, correct_drafts=75,
)  # fmt: skip
SLOW = record(
    index=1, started_s=0.5, finished_s=2.5, prompt_tokens=40, output_tokens=7, cached_tokens=4,
    arrivals=((1.5, 1), (2.5, 7)), verifies=10, correct_drafts=0,
)  # fmt: skip
FAILED = record(
    index=2, started_s=0.0, finished_s=9.0, output_tokens=500, prompt_tokens=60, verifies=9, correct_drafts=99,
    arrivals=((8.0, 500),), error="ServerError: x",
)  # fmt: skip
BOTH = [FAST, SLOW]


def test_time_per_token_is_time_over_tokens_and_not_over_chunks() -> None:
    assert [seconds for seconds, _ in intervals([FAST])] == pytest.approx([0.0025] * 3)
    assert [tokens for _, tokens in intervals([FAST])] == [4, 4, 4]
    latency = itl_ms([FAST])
    assert latency is not None
    assert latency.mean == pytest.approx(2.5)
    assert (latency.p50, latency.p99) == pytest.approx((2.5, 2.5))


def test_inter_token_latency_counts_tokens() -> None:
    latency = itl_ms(BOTH)
    assert latency is not None
    # 12 tokens of 2.5 ms and 6 of 1000 / 6 ms.
    assert latency.mean == pytest.approx((30 + 1000) / 18)
    assert latency.p50 == pytest.approx(2.5)
    assert latency.p90 == pytest.approx(1000 / 6)


@given(
    st.lists(
        st.tuples(st.floats(min_value=0.001, max_value=9), st.integers(min_value=1, max_value=16)),
        min_size=2,
        max_size=30,
    )
)
def test_the_peak_rate_is_at_least_the_average(steps: list[tuple[float, int]]) -> None:
    at, tokens, arrivals = 0.0, 0, []
    for gap, gained in steps:
        at, tokens = at + gap, tokens + gained
        arrivals.append((at, tokens))
    one = record(arrivals=tuple(arrivals), output_tokens=tokens)
    latency = itl_ms([one])
    assert latency is not None
    assert min(seconds for seconds, _ in intervals([one])) * 1000 <= latency.mean * (1 + 1e-9)


def test_time_per_output_token_is_one_value_a_request() -> None:
    latency = tpot_ms(BOTH)
    assert latency is not None
    assert latency.mean == pytest.approx((2.5 + 1000 / 6) / 2)


def test_latencies() -> None:
    first, whole = ttft_ms(BOTH), e2e_ms(BOTH)
    assert first is not None
    assert whole is not None
    assert first.mean == pytest.approx((200 + 1000) / 2)
    assert first.p90 == pytest.approx(200 + 0.9 * 800)
    assert (whole.mean, whole.p50) == pytest.approx((1500, 1500))


def test_throughputs_are_over_the_wall_time() -> None:
    assert wall_s(BOTH) == 2.5
    assert output_throughput_tok_s(BOTH) == pytest.approx(20 / 2.5)
    assert total_throughput_tok_s(BOTH) == pytest.approx(120 / 2.5)


def test_what_failed_stays_out_of_every_metric() -> None:
    for metric in (
        output_throughput_tok_s, total_throughput_tok_s, ttft_ms, itl_ms, tpot_ms, e2e_ms, acceptance_length,
        verifies, correct_drafts, draft_histogram, cached_share, wall_s,
    ):  # fmt: skip
        assert metric([*BOTH, FAILED]) == metric(BOTH)
        assert metric([FAILED]) is None
        assert metric([]) is None


def test_a_length_that_is_unknown_gives_no_throughput() -> None:
    assert output_throughput_tok_s([FAST, record(output_tokens=None)]) is None
    assert total_throughput_tok_s([FAST, record(output_tokens=5, prompt_tokens=None)]) is None
    assert energy_per_token_j([FAST, record(output_tokens=None)], 9.0) is None


def test_acceptance_length_is_by_sums() -> None:
    pair = [record(verifies=25, correct_drafts=75), record(verifies=10, correct_drafts=0)]
    length = acceptance_length(pair)
    assert length == pytest.approx(1 + 75 / 35)
    assert length != pytest.approx((4 + 1) / 2)
    assert (verifies(pair), correct_drafts(pair)) == (35, 75)


def test_absent_acceptance_is_null_and_no_accepted_draft_is_no_benefit() -> None:
    assert acceptance_length([record(), record(verifies=0, correct_drafts=0)]) is None
    assert not brings_no_benefit(None)
    assert not brings_no_benefit(1.001)
    assert brings_no_benefit(acceptance_length([record(verifies=39, correct_drafts=0)]))


def test_histograms_add_up_entry_by_entry() -> None:
    assert draft_histogram([record(draft_histogram=(3, 1)), record(draft_histogram=(1, 1, 5)), record()]) == (4, 2, 5)


def test_acceptance_by_depth_shows_where_a_drafter_collapses() -> None:
    shares = acceptance_by_depth((5, 5, 8, 2, 0, 0))
    assert shares[:4] == pytest.approx((0.75, 10 / 15, 0.2, 0.0))
    assert shares[4:] == (None,)


def test_step_time_times_rate_is_acceptance() -> None:
    # 2.5 ms a token at 4 tokens a step.
    assert step_time_ms([FAST], 4.0) == pytest.approx(10.0)
    assert step_time_ms([FAST], 1.0) == pytest.approx(2.5)
    assert step_time_ms([FAST], None) is None
    assert step_time_ms([record(arrivals=((0.1, 4),))], 4.0) is None


def test_break_even_and_margin() -> None:
    assert break_even_acceptance(30.0, 12.0) == 2.5
    assert margin(3.1, 2.5) == pytest.approx(0.6)
    assert break_even_acceptance(30.0, None) is None
    assert break_even_acceptance(None, 12.0) is None
    assert break_even_acceptance(30.0, 0.0) is None
    assert margin(None, 2.5) is None
    assert margin(3.0, None) is None


def test_cached_share() -> None:
    assert cached_share(BOTH) == 0.1
    assert cached_share([record(cached_tokens=5)]) is None


def test_energy_per_token() -> None:
    assert energy_per_token_j(BOTH, 400.0) == 20.0
    assert energy_per_token_j(BOTH, None) is None
    assert energy_per_token_j([FAILED], 400.0) is None


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (LatencyLimits(), 2 / 2.5),
        (LatencyLimits(ttft_ms=500), 1 / 2.5),
        (LatencyLimits(tpot_ms=1), 0.0),
        (LatencyLimits(ttft_ms=2000, tpot_ms=200, e2e_ms=2000), 2 / 2.5),
        (LatencyLimits(e2e_ms=1999), 1 / 2.5),
    ],
)
def test_goodput_counts_requests_within_every_limit(limits: LatencyLimits, expected: float) -> None:
    assert goodput_requests_s(BOTH, limits) == pytest.approx(expected)
    assert goodput_requests_s([FAILED], limits) is None


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (LatencyLimits(), 20 / 2.5),
        (LatencyLimits(ttft_ms=500), 13 / 2.5),
        (LatencyLimits(tpot_ms=1), 0.0),
        (LatencyLimits(e2e_ms=1999), 13 / 2.5),
    ],
)
def test_goodput_in_tokens_counts_those_of_the_same_requests(limits: LatencyLimits, expected: float) -> None:
    assert goodput_output_tok_s(BOTH, limits) == pytest.approx(expected)
    assert goodput_output_tok_s([FAILED], limits) is None


def test_goodput_in_tokens_is_unknown_where_a_count_is() -> None:
    assert goodput_output_tok_s([FAST, record(output_tokens=None)], LatencyLimits(e2e_ms=2000)) is None
    assert goodput_output_tok_s([FAST, record(output_tokens=None)], LatencyLimits(ttft_ms=500)) == 13.0


def test_limits_are_said_in_words_and_stored_as_plain_values() -> None:
    limits = LatencyLimits(ttft_ms=2000, tpot_ms=50.5)
    assert limits.words == "TTFT ≤ 2000 ms and TPOT ≤ 50.5 ms"
    assert LatencyLimits.from_json(limits.to_json()) == limits


def test_an_unknown_latency_keeps_no_limit() -> None:
    assert goodput_requests_s([record(output_tokens=4)], LatencyLimits(ttft_ms=1e9)) == 0.0


def test_every_metric_says_what_it_is_under_a_tag_of_its_own() -> None:
    assert len({metric.tag for metric in METRICS}) == len(METRICS) == 14
    assert all(metric.unit and metric.formula and metric.source for metric in METRICS)
