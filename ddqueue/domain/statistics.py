"""Statistics of repeated measurements: intervals, when to stop repeating, percentiles, and whether two cells differ.

Everything is pure.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from random import Random
from statistics import fmean, median

from ddqueue.domain.deviation import stdev
from ddqueue.domain.rank_tests import mann_whitney_p
from ddqueue.domain.student import t_quantile
from ddqueue.domain.sweep import Repeats

CONFIDENCE = 0.95
SIGNIFICANCE = 0.05
"""The share of equal samples that a single test may call different."""

LOOKING_COSTS = 1.15
"""By how much an interval is widened when the repeats decided themselves how many they are.

Whoever stops because the interval looks narrow stops too often when it is narrow by luck. Without a remedy the final
95% interval held the truth in as few as 90% of simulated points. Widened so, and with the rule of `enough` that two
looks in a row must agree, it holds it in 94 to 98%, for spreads from a tenth of the target to seven times the target.
"""


@dataclass(frozen=True)
class Interval:
    """An estimate and the bounds of its confidence interval, from `n` values."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def half_width(self) -> float:
        """Half the interval's width, in the unit of the values."""
        return (self.high - self.low) / 2

    def within(self, fraction: float) -> bool:
        """Whether both bounds lie within +- `fraction` of the mean."""
        return self.half_width <= fraction * abs(self.mean)


def mean_interval(
    values: Sequence[float], confidence: float = CONFIDENCE, repeats: Repeats | None = None
) -> Interval | None:
    """Student's t interval of the mean: mean +- t * s / sqrt(n), with the sample standard deviation s (n - 1).

    `repeats` is the rule by which the values were collected, where it was `enough`: an interval that could stop itself
    is widened by LOOKING_COSTS. None with fewer than two values: one value says nothing about its own spread.
    """
    n = len(values)
    if n < 2:
        return None
    mean = fmean(values)
    half = t_quantile((1 + confidence) / 2, n - 1) * stdev(values) / math.sqrt(n)
    if repeats is not None and repeats.minimum < repeats.maximum:
        half *= LOOKING_COSTS
    return Interval(mean, mean - half, mean + half, n)


def ratio_interval(
    numerator: Sequence[float], denominator: Sequence[float], confidence: float = CONFIDENCE
) -> Interval | None:
    """The ratio of two cells' geometric means, with Welch's t interval of the difference of the logarithms.

    None with fewer than two values on a side, or where a value is not positive. `n` counts both sides.
    Source: Welch, Biometrika 34 (1947), for the degrees of freedom.
    """
    if min(len(numerator), len(denominator)) < 2 or min(*numerator, *denominator) <= 0:
        return None
    above, below = [math.log(value) for value in numerator], [math.log(value) for value in denominator]
    difference = fmean(above) - fmean(below)
    above_error, below_error = stdev(above) ** 2 / len(above), stdev(below) ** 2 / len(below)
    error = above_error + below_error
    n = len(above) + len(below)
    if error == 0:
        return Interval(math.exp(difference), math.exp(difference), math.exp(difference), n)
    freedom = error**2 / (above_error**2 / (len(above) - 1) + below_error**2 / (len(below) - 1))
    half = t_quantile((1 + confidence) / 2, freedom) * math.sqrt(error)
    return Interval(math.exp(difference), math.exp(difference - half), math.exp(difference + half), n)


def enough(values: Sequence[float], repeats: Repeats) -> bool:
    """Whether a point has been measured often enough.

    False below the minimum, true at the maximum, and between them when the interval of the mean, widened for the
    looking, is within the target now and was so one repeat ago. `values` are the output throughputs of the repeats that
    were valid, in order. LOOKING_COSTS says what this keeps of the confidence.
    """
    if len(values) >= repeats.maximum:
        return True
    if len(values) < repeats.minimum:
        return False
    looks = (mean_interval(values[:n], repeats=repeats) for n in (len(values) - 1, len(values)))
    return all(interval is not None and interval.within(repeats.within) for interval in looks)


def percentile(values: Sequence[float], fraction: float, weights: Sequence[int] | None = None) -> float:
    """The `fraction` quantile (0..1) by linear interpolation between order statistics.

    This is definition 7 of Hyndman and Fan, The American Statistician 50 (1996), and numpy's default. A weight of k
    counts a value k times. Raises ValueError without any value.
    """
    pairs = sorted(zip(values, weights or [1] * len(values), strict=True))
    ends = list(accumulate(weight for _, weight in pairs))
    if not ends or ends[-1] < 1:
        raise ValueError("a percentile needs at least one value")
    position = (ends[-1] - 1) * fraction
    below = math.floor(position)
    low = pairs[bisect_right(ends, below)][0]
    high = pairs[bisect_right(ends, min(below + 1, ends[-1] - 1))][0]
    return low + (high - low) * (position - below)


def bootstrap_interval(
    values: Sequence[float],
    statistic: Callable[[Sequence[float]], float],
    random: Random,
    resamples: int = 2000,
    confidence: float = CONFIDENCE,
) -> Interval | None:
    """The percentile bootstrap's interval of any statistic, e.g. a p99; `mean` holds the statistic of the values.

    A resample cannot hold a value larger than the largest seen, so that a percentile needs values beyond it: with 20 or
    more there the interval holds the truth in 94 to 95% of simulated latencies, with 6 (p90 of 60) in 92%, and with
    less than one (p99 of 60) in 45%. None with fewer than two values.
    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13.
    """
    if len(values) < 2:
        return None
    estimates = [statistic(random.choices(values, k=len(values))) for _ in range(resamples)]
    tail = (1 - confidence) / 2
    return Interval(statistic(values), percentile(estimates, tail), percentile(estimates, 1 - tail), len(values))


class Outlier(StrEnum):
    """How far a value lies outside the middle half of its sample."""

    NONE = "none"
    MILD = "mild"
    """More than 1.5 interquartile ranges beyond a quartile."""
    SEVERE = "severe"
    """More than 3 interquartile ranges beyond a quartile."""


def outliers(values: Sequence[float]) -> tuple[Outlier, ...]:
    """Mark every value by Tukey's fences; nothing is removed. Source: Tukey, Exploratory Data Analysis (1977)."""
    if not values:
        return ()
    low, high = percentile(values, 0.25), percentile(values, 0.75)
    spread = high - low

    def mark(value: float) -> Outlier:
        beyond = max(low - value, value - high)
        if beyond > 3 * spread:
            return Outlier.SEVERE
        return Outlier.MILD if beyond > 1.5 * spread else Outlier.NONE

    return tuple(mark(value) for value in values)


class Difference(StrEnum):
    """What a comparison of two samples allows to say."""

    DIFFERENT = "different"
    """Significant, and at least as large as the threshold."""
    TOO_SMALL = "too_small"
    """Significant, but smaller than the threshold: of no consequence."""
    UNCONTROLLED = "uncontrolled"
    """Significant by the spread inside each run; but no cell was visited twice, so that nobody knows how much one start
    of a server differs from the next. The two runs differ, the cells perhaps."""
    NOT_SHOWN = "not_shown"
    """Chance explains it."""
    TOO_FEW = "too_few"
    """So few values that not even complete separation would be significant: measure again before concluding."""


@dataclass(frozen=True)
class Comparison:
    """Two samples compared: `effect` is median(b) / median(a) - 1, `p_value` two-sided."""

    verdict: Difference
    effect: float
    p_value: float


def compare(
    a: Sequence[float], b: Sequence[float], threshold: float, significance: float = SIGNIFICANCE
) -> Comparison | None:
    """Whether b differs from a: significant by Mann and Whitney's rank test *and* at least `threshold` of a's median.

    `threshold` is a fraction, e.g. the noise floor. None where a side is empty or a's median is zero. Three values
    against three can never reach p < 0.1, which is said as TOO_FEW. Source: Mann and Whitney, Annals of Mathematical
    Statistics 18 (1947); the pair of conditions is Airspeed Velocity's.
    """
    if not a or not b or median(a) == 0:
        return None
    effect = median(b) / median(a) - 1
    p_value = mann_whitney_p(a, b)
    if 2 / math.comb(len(a) + len(b), len(a)) > significance:
        verdict = Difference.TOO_FEW
    elif p_value > significance:
        verdict = Difference.NOT_SHOWN
    else:
        verdict = Difference.DIFFERENT if abs(effect) >= threshold else Difference.TOO_SMALL
    return Comparison(verdict, effect, p_value)
