"""The order in which a host visits its cells, so that a box that slowly changes favours none of them.

A box warms up, another tenant comes and goes, a driver settles: the same server is faster at the start of a night than
at its end. Cells measured once and one after the other would carry that drift as if it were theirs. So all cells are
visited once, then once more in the reverse order, and so on (A B C, C B A, ...). After an even number of visits every
cell's visits lie, on average, at the same moment, and a steady drift drops out of their means.

The control cell stands apart: it is visited first, last, and in between at even distances, so that its numbers over
time are the box's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True)
class Turn(Generic[Value]):
    """One start of one cell's server: its `visit`th, counted from 1."""

    cell: Value
    visit: int
    control: bool = False


def turns(cells: Sequence[Value], visits: int, control: int | None = None, every: int = 1) -> list[Turn[Value]]:
    """Every start of a server on one host with one parallelism, in order.

    `visits` counts those of every cell. `control` is the index of the control cell: it comes before and after all
    others and between them after at most `every`, at distances that differ by one at most and are the same read
    backwards; and not less often than `visits` asks.
    """
    others = [cell for index, cell in enumerate(cells) if index != control]
    rounds = [
        Turn(cell, visit) for visit in range(1, visits + 1) for cell in (others if visit % 2 else reversed(others))
    ]
    if control is None:
        return rounds
    gaps = _gaps(len(rounds), visits, every)
    # Python rounds a half to the even neighbour, which mirrors the distances where the number of turns is even.
    places = [round(gap * len(rounds) / gaps) for gap in range(gaps + 1)] if gaps else [0]
    ordered: list[Turn[Value]] = []
    for visit, (before, place) in enumerate(zip([0, *places], places, strict=False), start=1):
        ordered += [*rounds[before:place], Turn(cells[control], visit, control=True)]
    return ordered


def count(cells: int, visits: int, every: int | None = None) -> int:
    """How many turns `turns` gives for so many cells, without building any; `every` is None without a control cell."""
    if every is None:
        return cells * visits
    rounds = (cells - 1) * visits
    return rounds + _gaps(rounds, visits, every) + 1


def _gaps(rounds: int, visits: int, every: int) -> int:
    """How many stretches between two turns of the control cell."""
    return max(-(-rounds // every), visits - 1)
