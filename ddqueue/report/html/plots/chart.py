"""What a chart is: axes with units, series of marks, bars, and reference lines. Nothing here draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ddqueue.report.html.plots.style import Style


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis."""

    at: float
    text: str


@dataclass(frozen=True)
class Axis:
    """`label` names the quantity and its unit. Without `ticks` round ones are found.

    `low` and `high` widen the axis to hold them. With `downwards` a y axis grows from top to bottom.
    """

    label: str
    logarithmic: bool = False
    ticks: tuple[Tick, ...] = ()
    low: float | None = None
    high: float | None = None
    downwards: bool = False


@dataclass(frozen=True)
class Mark:
    """One measured place, with the bounds of its interval along either axis. `tip` is shown to a pointer.

    A `hollow` mark is one that does not count fully: unranked, or resting on little. `shift_px` moves it sideways, off
    another mark at the same place.
    """

    x: float
    y: float
    tip: str
    y_bounds: tuple[float, float] | None = None
    x_bounds: tuple[float, float] | None = None
    hollow: bool = False
    shift_px: float = 0.0


@dataclass(frozen=True)
class Series:
    """Marks of one kind, joined by a line where `line` is set."""

    name: str
    style: Style
    marks: tuple[Mark, ...]
    line: bool = False
    without_marks: bool = False


@dataclass(frozen=True)
class Bar:
    """A stretch from `start` to `end` of the x axis in the lane at `lane` of the y axis."""

    start: float
    end: float
    lane: float
    style: Style
    tip: str


class Direction(StrEnum):
    """Where a reference line runs."""

    ACROSS = "across"
    """At one y."""
    UP = "up"
    """At one x."""
    SLOPE = "slope"
    """y = at * x."""


@dataclass(frozen=True)
class Rule:
    """A reference line, with words at its end."""

    direction: Direction
    at: float
    text: str = ""
    style: Style | None = None


@dataclass(frozen=True)
class Chart:
    """One plot. `simulated` is written on it when its data are. Sizes are in CSS pixels at scale 1."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...] = ()
    bars: tuple[Bar, ...] = ()
    rules: tuple[Rule, ...] = ()
    simulated: bool = False
    width: float = 380
    height: float = 270

    @property
    def has_hollow_marks(self) -> bool:
        """Whether a legend has to say what they are."""
        return any(mark.hollow for one in self.series for mark in one.marks)

    def xs(self) -> list[float]:
        """Every x that has to be on the axis."""
        marks = [mark for one in self.series for mark in one.marks]
        bounds = [bound for mark in marks for bound in mark.x_bounds or ()]
        ends = [end for bar in self.bars for end in (bar.start, bar.end)]
        rules = [rule.at for rule in self.rules if rule.direction is Direction.UP]
        return [*(mark.x for mark in marks), *bounds, *ends, *rules, *_given(self.x)]

    def ys(self) -> list[float]:
        """Every y that has to be on the axis."""
        marks = [mark for one in self.series for mark in one.marks]
        bounds = [bound for mark in marks for bound in mark.y_bounds or ()]
        rules = [rule.at for rule in self.rules if rule.direction is Direction.ACROSS]
        return [*(mark.y for mark in marks), *bounds, *(bar.lane for bar in self.bars), *rules, *_given(self.y)]


def _given(axis: Axis) -> Sequence[float]:
    return [bound for bound in (axis.low, axis.high) if bound is not None] + [tick.at for tick in axis.ticks]
