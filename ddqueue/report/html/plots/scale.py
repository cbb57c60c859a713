"""From values to pixels, with ticks at round values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ddqueue.report.html.plots.chart import Axis, Tick

_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
_MARGIN = 0.07
"""The share of an axis kept free at both ends, so that no mark sits on the frame."""


@dataclass(frozen=True)
class Scale:
    """Maps `low` to `start_px` and `high` to `end_px`, evenly or by logarithm."""

    low: float
    high: float
    start_px: float
    end_px: float
    logarithmic: bool
    ticks: tuple[Tick, ...]

    def __call__(self, value: float) -> float:
        low, span = self._ends
        return self.start_px + (self._even(value) - low) / span * (self.end_px - self.start_px)

    def holds(self, value: float) -> bool:
        """Whether the value lies on the axis."""
        return self.low <= value <= self.high

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """Where the axis begins, and how long it is."""
        low, high = self._even(self.low), self._even(self.high)
        return low, high - low

    def _even(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value


def fitted(axis: Axis, values: Sequence[float], start_px: float, end_px: float, wanted_ticks: int) -> Scale:
    """The scale on which `values` and the axis's own bounds find room; a logarithmic one leaves out what has no
    logarithm. Without any value it runs from 0 to 1."""
    known = [value for value in values if value > 0 or not axis.logarithmic] or (
        [1.0] if axis.logarithmic else [0.0, 1.0]
    )
    low, high = min(known), max(known)
    if axis.logarithmic:
        low, high = _padded(math.log10(low), math.log10(high), least=0.15)
        low, high = 10**low, 10**high
    else:
        low, high = _padded(low, high, least=abs(high) * 0.05 or 0.5)
        low = axis.low if axis.low is not None and axis.low <= min(known) else low
        high = axis.high if axis.high is not None and axis.high >= max(known) else high
    ticks = axis.ticks or (_log_ticks(low, high) if axis.logarithmic else _even_ticks(low, high, wanted_ticks))
    return Scale(low, high, start_px, end_px, axis.logarithmic, tuple(tick for tick in ticks if low <= tick.at <= high))


def _padded(low: float, high: float, least: float) -> tuple[float, float]:
    room = max((high - low) * _MARGIN, least if high == low else 0.0)
    return low - room, high + room


def _even_ticks(low: float, high: float, wanted: int) -> tuple[Tick, ...]:
    rough = (high - low) / max(wanted, 1)
    power = 10 ** math.floor(math.log10(rough))
    step = power * min(_ROUND, key=lambda factor: abs(factor * power - rough))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    decimals = next(places for places in range(20) if math.isclose(round(step, places), step))
    return tuple(Tick(number * step, f"{number * step:,.{decimals}f}") for number in range(first, last + 1))


def _log_ticks(low: float, high: float) -> tuple[Tick, ...]:
    """At 1, 2, 5 of each decade; at 1 alone where that would crowd, and at round steps where it would leave too few."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if len(decades) <= 4 else (1,)
    found = [factor * 10.0**decade for decade in decades for factor in factors]
    inside = [at for at in found if low <= at <= high]
    if len(inside) < 2:
        return _even_ticks(low, high, 4)
    return tuple(Tick(at, f"{at:,.0f}" if at >= 1 else f"{at:g}") for at in inside)
