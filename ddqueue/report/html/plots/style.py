"""Colours and shapes of marks. A colour is the name of a class that each theme of the page gives its own value.

The eight colours are told apart by people who do not see red and green apart, and every series has a shape of its own
as well, so that nothing hangs on colour alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Shape(StrEnum):
    """The form of a mark."""

    CIRCLE = "circle"
    SQUARE = "square"
    TRIANGLE = "triangle"
    DIAMOND = "diamond"
    UPSIDE_DOWN = "upside-down"
    PENTAGON = "pentagon"
    CROSS = "cross"


@dataclass(frozen=True)
class Style:
    """How marks of one series look. `colour` is a class of the page: `c0` to `c7`, `c-base`, `c-other`, `c-bad`."""

    colour: str
    shape: Shape = Shape.CIRCLE
    dashed: bool = False
    faint: bool = False


COLOURS = 8
_SHAPES = (Shape.CIRCLE, Shape.TRIANGLE, Shape.DIAMOND, Shape.SQUARE, Shape.UPSIDE_DOWN, Shape.PENTAGON)

BASELINE = Style("c-base", Shape.SQUARE)
OTHER = Style("c-other", Shape.CIRCLE, faint=True)
FAILED = Style("c-bad", Shape.CROSS)


def style(number: int) -> Style:
    """The style of the series with that number, from 0; all below 24 differ."""
    return Style(f"c{number % COLOURS}", _SHAPES[(number % COLOURS + number // COLOURS) % len(_SHAPES)])


def shape(number: int) -> Shape:
    """A shape for series that share a colour."""
    return _SHAPES[number % len(_SHAPES)]
