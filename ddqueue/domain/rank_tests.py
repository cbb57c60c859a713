"""Tests that ask for the order of values only: exact where they can be, else by the normal distribution.

scipy has both; importing it takes more than a second of CPU, and the commands that compare take less.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations

EXACT_RANKS = 8
"""Mann and Whitney's distribution is worked out where the smaller sample has no more values than this, and no ties."""

EXACT_ORDER = 33
"""Kendall's is for so many values without ties."""


def mann_whitney_p(a: Sequence[float], b: Sequence[float]) -> float:
    """The two-sided p-value of Mann and Whitney's rank test; neither side is empty.

    With ties, or more than EXACT_RANKS values on both sides, by the normal distribution, corrected for ties and
    continuity. Source: Mann and Whitney, Annals of Mathematical Statistics 18 (1947).
    """
    ties = _ties([*a, *b])
    # Half a win for a tie, all doubled to stay whole.
    ordered = sorted(b)
    wins = sum(bisect_left(ordered, x) + bisect_right(ordered, x) for x in a)
    larger = max(wins, 2 * len(a) * len(b) - wins) / 2
    if not ties and min(len(a), len(b)) <= EXACT_RANKS:
        counts = _rank_counts(*sorted((len(a), len(b))))
        return min(1.0, 2 * sum(counts[round(larger) :]) / sum(counts))
    n = len(a) + len(b)
    lost = sum(tie**3 - tie for tie in ties) / (n * (n - 1))
    variance = len(a) * len(b) / 12 * (n + 1 - lost)
    if variance <= 0:
        return 1.0
    return min(1.0, _normal_two_sided((larger - len(a) * len(b) / 2 - 0.5) / math.sqrt(variance)))


def kendall_p(x: Sequence[float], y: Sequence[float]) -> float:
    """The two-sided p-value of Kendall's tau of three or more pairs: is y ordered by x?

    1 where all x or all y are equal, for then there is no order to test. Source: Kendall, Rank Correlation Methods
    (1970), chapters 4 and 5.
    """
    n = len(x)
    x_ties, y_ties = _ties(x), _ties(y)
    signs = [_sign(x2 - x1) * _sign(y2 - y1) for (x1, y1), (x2, y2) in combinations(zip(x, y, strict=True), 2)]
    score = sum(signs)
    if n in x_ties or n in y_ties:
        return 1.0
    fewer = (len(signs) - abs(score)) // 2
    if not x_ties and not y_ties and (n <= EXACT_ORDER or fewer <= 1):
        counts = _order_counts(n, fewer)
        return min(1.0, 2 * sum(counts) / math.factorial(n))
    pairs = n * (n - 1)

    def halved(ties: Iterable[int]) -> float:
        return sum(tie * (tie - 1) for tie in ties) / 2

    def triples(ties: Iterable[int]) -> float:
        return sum(tie * (tie - 1) * (tie - 2) for tie in ties)

    def weighted(ties: Iterable[int]) -> float:
        return sum(tie * (tie - 1) * (2 * tie + 5) for tie in ties)

    variance = (
        (pairs * (2 * n + 5) - weighted(x_ties) - weighted(y_ties)) / 18
        + 2 * halved(x_ties) * halved(y_ties) / pairs
        + triples(x_ties) * triples(y_ties) / (9 * pairs * (n - 2))
    )
    return _normal_two_sided(abs(score) / math.sqrt(variance))


def _ties(values: Sequence[float]) -> list[int]:
    """How many values are equal, for each value that there is more than once."""
    return [count for count in Counter(values).values() if count > 1]


def _normal_two_sided(z: float) -> float:
    """Twice the upper tail: above 1 for a z below 0, which a correction for continuity can bring."""
    return math.erfc(z / math.sqrt(2))


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


@lru_cache(maxsize=256)
def _rank_counts(fewer: int, more: int) -> tuple[int, ...]:
    """In how many of all splits of fewer + more ranks the smaller side has k wins: the coefficients of the Gaussian
    binomial, the product of (1 - q^(more + i)) / (1 - q^i) for i = 1..fewer."""
    counts = [1] + [0] * (fewer * more)
    for i in range(1, fewer + 1):
        for k in range(len(counts) - 1, more + i - 1, -1):
            counts[k] -= counts[k - more - i]
        for k in range(i, len(counts)):
            counts[k] += counts[k - i]
    return tuple(counts)


@lru_cache(maxsize=256)
def _order_counts(n: int, most: int) -> tuple[int, ...]:
    """How many of the n! orders have k inversions, for k = 0..most."""
    counts = [1] + [0] * most
    for size in range(2, n + 1):
        running, before = 0, list(counts)
        for k in range(most + 1):
            running += before[k] - (before[k - size] if k >= size else 0)
            counts[k] = running
    return tuple(counts)
