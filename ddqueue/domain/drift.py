"""Whether numbers that should stay the same move with time: the control cell over a sweep, or repeats within a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from statistics import fmean, median

from ddqueue.domain.noise import percent
from ddqueue.domain.rank_tests import kendall_p
from ddqueue.domain.statistics import SIGNIFICANCE

FEWEST = 5
"""Of four values even a perfect order comes by chance one time in twelve, so that no trend could be shown."""


@dataclass(frozen=True)
class Drift:
    """The trend of one quantity over time, relative to itself.

    `total_fraction` is the change from the first value to the last along the trend, -0.031 being a fall by 3.1%, and
    `per_hour_fraction` the same for each hour. `p_value` is how often values without a trend are so well ordered.
    """

    per_hour_fraction: float
    total_fraction: float
    p_value: float
    values: int

    @property
    def is_shown(self) -> bool:
        """Whether chance does not explain the order."""
        return self.p_value <= SIGNIFICANCE

    def words(self, what: str = "the control cell", of: str = "visits") -> str:
        """`the control cell fell by 3.1% over 6 visits (p = 0.01): results late in the sweep read low`"""
        chance = f"p = {self.p_value:.2g}"
        if not self.is_shown:
            return f"{what} shows no trend over {self.values} {of} ({chance})"
        rose = self.total_fraction > 0
        moved = f"{what} {'rose' if rose else 'fell'} by {percent(abs(self.total_fraction))} over {self.values} {of}"
        late = "run" if of == "repeats" else "sweep"
        return f"{moved} ({chance}): results late in the {late} read {'high' if rose else 'low'}"


def drift(at: Sequence[datetime], values: Sequence[float]) -> Drift | None:
    """The trend of `values`, each taken at the time beside it; in any order.

    Mann and Kendall's test, with the slope of Theil and Sen on the logarithms. Both ask for the order of the values
    only: a regression would let one bad visit make a trend, or hide one, and a sweep has no visits to spare. Values of
    one visit belong together, so give the mean of each.

    None with fewer than FEWEST values, where a value is not positive, or where all were taken at one moment.
    Source: Mann, Econometrica 13 (1945); Kendall, Rank Correlation Methods (1955); Sen, JASA 63 (1968).
    """
    if len(values) < FEWEST or min(values) <= 0 or min(at) == max(at):
        return None
    first = min(at)
    hours = [(moment - first).total_seconds() / 3600 for moment in at]
    slope = theil_sen_slope(hours, [math.log(value) for value in values])
    total = math.expm1(slope * max(hours))
    return Drift(total / max(hours), total, kendall_p(hours, values), len(values))


def theil_sen_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The median slope of the lines through any two points of different x. Raises ValueError when all x are equal."""
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(zip(x, y, strict=True), 2) if x1 != x2]
    if not slopes:
        raise ValueError("a slope needs two points of different x")
    return median(slopes)


def levels(points: Sequence[Sequence[float]]) -> list[float]:
    """How each visit stood over all points, 1 being the mean: one series, so that the box is asked once for a trend.

    `points` holds, for each point, the means of the same visits in the same order. Points are of different size but
    share what the box does to all, so each counts by its relative deviation. Raises ValueError when the visits
    differ in number or a mean is not positive.
    """
    centred = []
    for means in points:
        logs = [math.log(mean) for mean in means]
        centre = fmean(logs)
        centred.append([log - centre for log in logs])
    return [math.exp(fmean(visit)) for visit in zip(*centred, strict=True)]
