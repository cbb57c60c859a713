"""Student's t without scipy, whose import takes more than a second of CPU: more than any command that asks for a t."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_NEARLY_NORMAL = 1e6
"""Degrees of freedom from which the first two terms of the expansion about the normal are exact to 1e-11."""

_TINY = 1e-300
_PRECISION = 1e-15
_MOST_TERMS = 10_000


def t_two_sided(t: float, degrees_of_freedom: float) -> float:
    """The p-value of Student's t: how often a t variable is as far from 0 as `t`, on either side.

    It is the regularised incomplete beta function of nu / 2 and 1/2 at nu / (nu + t^2).
    Source: DLMF 8.17; Abramowitz and Stegun 26.7.1.
    """
    if degrees_of_freedom >= _NEARLY_NORMAL:
        # Fisher's expansion, A&S 26.7.8 without its second term.
        z = abs(t) * (1 - (t**2 + 1) / (4 * degrees_of_freedom))
        return math.erfc(max(z, 0.0) / math.sqrt(2))
    if t * t == 0:
        return 1.0
    whole = degrees_of_freedom + t * t
    if math.isinf(whole):
        return 0.0
    return _incomplete_beta(degrees_of_freedom / 2, 0.5, degrees_of_freedom / whole, t * t / whole)


@lru_cache(maxsize=4096)  # a table asks for the same few degrees of freedom thousands of times
def t_quantile(probability: float, degrees_of_freedom: float) -> float:
    """Student's t quantile: the value that a t variable stays below with `probability` (0..1, exclusive).

    Newton's method on the tail, which is convex: from the normal's quantile, which lies nearer to 0, it comes closer
    step by step and never passes, until only rounding is left.
    """
    if probability < 0.5:
        return -t_quantile(1 - probability, degrees_of_freedom)
    z = NormalDist().inv_cdf(probability)
    if degrees_of_freedom >= _NEARLY_NORMAL or z == 0:
        return z + (z**3 + z) / (4 * degrees_of_freedom)
    both_tails, t = 2 * (1 - probability), z
    for _ in range(_MOST_TERMS):
        step = (t_two_sided(t, degrees_of_freedom) - both_tails) / (2 * _density(t, degrees_of_freedom))
        t += step
        if step <= _PRECISION * t:
            break
    return t


def _density(t: float, degrees_of_freedom: float) -> float:
    half = degrees_of_freedom / 2
    logarithm = math.lgamma(half + 0.5) - math.lgamma(half) - 0.5 * math.log(degrees_of_freedom * math.pi)
    return math.exp(logarithm - (half + 0.5) * math.log1p(t * t / degrees_of_freedom))


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """I_x(a, b), with `rest` = 1 - x, which the caller knows without cancellation."""
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    front = math.exp(logarithm)
    if x <= (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, rest) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, DLMF 8.17.22, by Lentz's method."""
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for part in (even, odd):
            d = 1 / _not_zero(1 + part * d)
            c = _not_zero(1 + part / c)
            found *= c * d
        if abs(c * d - 1) < _PRECISION:
            break
    return found


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
