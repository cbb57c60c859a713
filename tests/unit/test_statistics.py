"""Statistics against scipy and numpy, and against the truth in simulated sweeps."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations
from random import Random
from statistics import NormalDist, fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ddqueue.domain import statistics
from ddqueue.domain.statistics import (
    LOOKING_COSTS,
    Difference,
    Interval,
    Outlier,
    bootstrap_interval,
    compare,
    enough,
    mean_interval,
    outliers,
    percentile,
    ratio_interval,
)
from ddqueue.domain.student import t_quantile
from ddqueue.domain.sweep import Repeats

VALUES = st.lists(st.floats(min_value=-1e6, max_value=1e6), min_size=1, max_size=40)


@given(VALUES, st.floats(min_value=0, max_value=1))
def test_percentiles_are_numpys(values: list[float], fraction: float) -> None:
    assert percentile(values, fraction) == pytest.approx(float(np.quantile(values, fraction)), rel=1e-9, abs=1e-6)


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 9)), min_size=1, max_size=20), st.floats(0, 1))
def test_a_weight_repeats_a_value(pairs: list[tuple[float, int]], fraction: float) -> None:
    values, weights = [value for value, _ in pairs], [weight for _, weight in pairs]
    repeated = [value for value, weight in pairs for _ in range(weight)]
    assert percentile(values, fraction, weights) == pytest.approx(percentile(repeated, fraction))


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        percentile([], 0.5)


@given(st.lists(st.floats(min_value=1, max_value=1000), min_size=2, max_size=12, unique=True))
def test_the_interval_of_the_mean_is_scipys(values: list[float]) -> None:
    interval = mean_interval(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=fmean(values), scale=stats.sem(values))
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((low, high))
    assert interval.n == len(values)


def test_one_value_has_no_interval_and_equal_values_a_narrow_one() -> None:
    assert mean_interval([5.0]) is None
    assert mean_interval([5.0, 5.0, 5.0]) == Interval(5.0, 5.0, 5.0, 3)


def test_the_interval_of_a_ratio_against_welch_on_logarithms() -> None:
    above, below = [110.0, 118.0, 113.0], [50.0, 49.0, 52.0, 51.5]
    interval = ratio_interval(above, below)
    logs = stats.ttest_ind(np.log(above), np.log(below), equal_var=False).confidence_interval(0.95)
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((math.exp(logs.low), math.exp(logs.high)))
    assert interval.mean == pytest.approx(stats.gmean(above) / stats.gmean(below))
    exact = ratio_interval([4.0, 4.0], [2.0, 2.0])
    assert exact is not None
    assert (exact.low, exact.mean, exact.high, exact.n) == pytest.approx((2.0, 2.0, 2.0, 4))
    assert ratio_interval([1.0], below) is None
    assert ratio_interval([1.0, 0.0], below) is None


def test_enough_waits_for_the_minimum_stops_at_the_maximum_and_between_them_looks() -> None:
    repeats = Repeats(minimum=3, maximum=5, within=0.03)
    assert not enough([], repeats)
    assert not enough([100.0, 100.0], repeats)
    assert enough([100.0, 100.1, 99.9], repeats)
    assert not enough([100.0, 120.0, 80.0], repeats)
    assert not enough([100.0, 120.0, 80.0, 100.0], repeats)
    assert enough([100.0, 120.0, 80.0, 100.0, 90.0], repeats)
    assert enough([50.0], Repeats(minimum=1, maximum=1))
    assert not enough([50.0], Repeats(minimum=1, maximum=2))


def test_an_interval_of_repeats_that_could_stop_themselves_is_wider() -> None:
    values = [100.0, 103.0, 101.0]
    plain = mean_interval(values)
    fixed, adaptive = (mean_interval(values, repeats=Repeats(3, most, 0.03)) for most in (3, 10))
    assert plain is not None
    assert adaptive is not None
    assert fixed == plain
    assert adaptive.mean == plain.mean
    assert adaptive.half_width == pytest.approx(LOOKING_COSTS * plain.half_width)


def test_one_lucky_look_is_not_enough() -> None:
    repeats = Repeats(3, 10, 0.03)
    lucky = [100.0, 104.0, 102.0, 102.0, 102.0, 102.0, 102.0, 102.0]
    looks = [mean_interval(lucky[:n], repeats=repeats) for n in range(2, 9)]
    narrow = [look is not None and look.within(0.03) for look in looks]
    first = 2 + narrow.index(True)
    assert not enough(lucky[:first], repeats)
    assert enough(lucky[: first + 1], repeats)


def coverage(repeats: Repeats, spread: float, sweeps: int) -> float:
    """The share of simulated points, of true throughput 100, whose final 95% interval holds it."""
    random, held = Random(20260101), 0
    for _ in range(sweeps):
        values: list[float] = []
        while not enough(values, repeats):
            values.append(random.gauss(100, 100 * spread))
        interval = mean_interval(values, repeats=repeats)
        assert interval is not None
        held += interval.low <= 100 <= interval.high
    return held / sweeps


def sampling_error(sweeps: int) -> float:
    """Three standard errors of a share of 95%."""
    return 3 * math.sqrt(0.95 * 0.05 / sweeps)


@pytest.mark.parametrize("n", [3, 5, 10])
def test_the_interval_holds_the_truth_as_often_as_it_says(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr(statistics, "t_quantile", cache(t_quantile))
    assert coverage(Repeats(n, n, 0.03), 0.02, 3000) == pytest.approx(0.95, abs=sampling_error(3000))


@pytest.mark.parametrize("spread", [0.003, 0.01, 0.02, 0.03, 0.04, 0.06, 0.1])
def test_stopping_early_costs_no_confidence(monkeypatch: pytest.MonkeyPatch, spread: float) -> None:
    monkeypatch.setattr(statistics, "t_quantile", cache(t_quantile))
    held = coverage(Repeats(3, 10, 0.03), spread, 1000)
    assert 0.95 - sampling_error(1000) <= held <= 0.985


def test_the_bootstrap_of_the_mean_agrees_with_theory() -> None:
    random = Random(1)
    values = [random.gauss(100, 5) for _ in range(200)]
    interval, theory = bootstrap_interval(values, fmean, Random(2)), mean_interval(values)
    assert interval is not None
    assert theory is not None
    assert interval.mean == fmean(values)
    assert interval.half_width == pytest.approx(theory.half_width, rel=0.1)
    assert interval == bootstrap_interval(values, fmean, Random(2))
    assert bootstrap_interval([1.0], fmean, Random(2)) is None


def bootstrap_coverage(fraction: float, values: int, samples: int) -> float:
    """The share of samples of skewed latencies whose bootstrap interval of a percentile holds the true one."""
    random, held = Random(11), 0
    truth = math.exp(NormalDist(0, 0.4).inv_cdf(fraction))
    for _ in range(samples):
        drawn = [random.lognormvariate(0, 0.4) for _ in range(values)]
        interval = bootstrap_interval(drawn, lambda again: percentile(again, fraction), random, resamples=100)
        assert interval is not None
        held += interval.low <= truth <= interval.high
    return held / samples


@pytest.mark.parametrize("fraction", [0.5, 0.9])
def test_the_bootstrap_of_a_percentile_holds_the_truth(fraction: float) -> None:
    assert bootstrap_coverage(fraction, values=200, samples=120) == pytest.approx(0.95, abs=sampling_error(120))


def test_the_bootstrap_is_short_where_too_few_values_lie_beyond_the_percentile() -> None:
    assert bootstrap_coverage(0.99, values=60, samples=60) < 0.7


@pytest.mark.parametrize(
    ("value", "mark"),
    [(13.5, Outlier.NONE), (13.6, Outlier.MILD), (20.2, Outlier.MILD), (20.3, Outlier.SEVERE)],
)
def test_tukeys_fences_mark_and_remove_nothing(value: float, mark: Outlier) -> None:
    # With the tenth value on top the quartiles are 2.25 and 6.75: fences at 13.5 and 20.25.
    assert outliers([0, 1, 2, 3, 4, 5, 6, 7, 8, value]) == (Outlier.NONE,) * 9 + (mark,)
    assert outliers([-value, 0, -1, -2, -3, -4, -5, -6, -7, -8]) == (mark,) + (Outlier.NONE,) * 9


def test_equal_values_have_no_outliers_and_nothing_has_none() -> None:
    assert outliers([5.0, 5.0, 5.0]) == (Outlier.NONE,) * 3
    assert outliers([]) == ()


A = [100.0, 101.0, 99.0, 100.5, 99.5]


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        ([value * 1.1 for value in A], Difference.DIFFERENT),
        ([value * 0.9 for value in A], Difference.DIFFERENT),
        ([value + 2.5 for value in A], Difference.TOO_SMALL),
        ([99.9, 100.9, 99.1, 100.4, 99.6], Difference.NOT_SHOWN),
        ([150.0], Difference.TOO_FEW),
    ],
)
def test_a_difference_is_significant_and_large_enough(other: list[float], verdict: Difference) -> None:
    comparison = compare(A, other, threshold=0.05)
    assert comparison is not None
    assert comparison.verdict is verdict
    assert comparison.p_value == pytest.approx(stats.mannwhitneyu(A, other).pvalue)


def test_three_against_three_cannot_be_significant_and_it_is_said() -> None:
    comparison = compare([100.0, 101.0, 99.0], [200.0, 201.0, 199.0], threshold=0.05)
    assert comparison is not None
    assert (comparison.verdict, comparison.effect) == (Difference.TOO_FEW, 1.0)
    assert comparison.p_value == pytest.approx(0.1)


def test_nothing_can_be_compared_with_nothing() -> None:
    assert compare([], A, 0.05) is None
    assert compare(A, [], 0.05) is None
    assert compare([0.0, 0.0], A, 0.05) is None


@given(st.lists(st.integers(1, 6), min_size=4, max_size=9), st.lists(st.integers(1, 6), min_size=4, max_size=9))
def test_ties_are_ranked_as_scipy_does(a: list[int], b: list[int]) -> None:
    comparison = compare(a, b, threshold=0.05)
    assert comparison is not None
    assert comparison.p_value == pytest.approx(stats.mannwhitneyu(a, b, method="auto").pvalue)
    assert comparison.effect == pytest.approx(float(np.median(b) / np.median(a)) - 1)


def test_mann_and_whitneys_p_value_is_the_share_of_splits_that_lie_so_far_apart() -> None:
    a, b = [1.0, 2.0, 4.0, 7.0], [3.0, 5.0, 6.0, 8.0, 9.0]
    comparison = compare(a, b, threshold=0.0)

    def wins(side: tuple[float, ...]) -> int:
        others = [value for value in a + b if value not in side]
        return sum(value > other for value in side for other in others)

    splits = [wins(side) for side in combinations(a + b, len(a))]
    extreme = sum(abs(one - 10) >= abs(wins(tuple(a)) - 10) for one in splits)
    assert comparison is not None
    assert comparison.p_value == pytest.approx(extreme / len(splits))


def test_the_threshold_is_the_callers() -> None:
    other = [value + 2.5 for value in A]
    verdicts = [compare(A, other, threshold) for threshold in (0.05, 0.02)]
    assert [found and found.verdict for found in verdicts] == [Difference.TOO_SMALL, Difference.DIFFERENT]
