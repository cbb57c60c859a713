"""The sample standard deviation in whole numbers, exact but for one rounding at the end.

`statistics.stdev` gives the same number, by fractions that it shortens at every step: for ten values that takes eight
times as long, and was most of the time of a table of thousands of rows.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

_KEPT_BITS = 2 * sys.float_info.mant_dig + 3
"""So many bits of a square under the root leave its root enough to be rounded correctly."""


def stdev(values: Sequence[float]) -> float:
    """The square root of the sum of squared deviations from the mean / (n - 1), correctly rounded.

    Raises ValueError with fewer than two values, or where one is no number; OverflowError where one is infinite.
    """
    n = len(values)
    if n < 2:
        raise ValueError("a standard deviation needs two values")
    ratios = [value.as_integer_ratio() for value in values]
    # Every denominator is a power of two: the largest is one that all share.
    shared = max(denominator for _, denominator in ratios)
    whole = [numerator * (shared // denominator) for numerator, denominator in ratios]
    squares = n * sum(value * value for value in whole) - sum(whole) ** 2
    return _root(squares, n * (n - 1) * shared * shared)


def _root(numerator: int, denominator: int) -> float:
    """The square root of a fraction. The whole root of the fraction, scaled to enough bits, has its last bit set where
    something was cut off, so that the division, which rounds, sees that the root lies above it.

    Source: the same rule as `statistics` has since Python 3.11.
    """
    scale = (numerator.bit_length() - denominator.bit_length() - _KEPT_BITS) // 2
    if scale >= 0:
        return float(_odd_root(numerator, denominator << 2 * scale) << scale)
    return _odd_root(numerator << -2 * scale, denominator) / (1 << -scale)


def _odd_root(numerator: int, denominator: int) -> int:
    root = math.isqrt(numerator // denominator)
    return root | (root * root * denominator != numerator)
