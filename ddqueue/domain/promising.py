"""In which order cells are visited when a dominated one may be given up: those from the middle of the axes first.

Nobody knows the winner beforehand. But the sooner a strong cell is measured, the more of the others can be given up
after one look; and along an axis such as the budget, where too little wastes verifies and too much wastes time, the
middle is stronger than the ends. It is no more than a guess: it decides how long a sweep takes, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ddqueue.domain.configuration import Cell


def middle_first(cells: Sequence[Cell]) -> list[int]:
    """The places of `cells` in the order to visit them: baselines first, then by the distance from the middle of every
    numeric axis; ties stay as they were."""
    axes = _axes([cell for cell in cells if not cell.is_baseline])

    def distance(place: int) -> float:
        return -1.0 if cells[place].is_baseline else _off(cells[place], axes)

    return sorted(range(len(cells)), key=distance)


def _axes(cells: Sequence[Cell]) -> dict[str, list[float]]:
    """The distinct values of every numeric setting that differs between the cells, in order."""
    values: dict[str, set[float]] = {}
    for cell in cells:
        for name, value in _numbers(cell).items():
            values.setdefault(name, set()).add(value)
    return {name: sorted(found) for name, found in values.items() if len(found) > 1}


def _numbers(cell: Cell) -> dict[str, float]:
    settings: Mapping[str, Any] = {**(cell.canonical()["speculation"] or {}), **cell.args}
    return {
        name: float(value)
        for name, value in settings.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _off(cell: Cell, axes: Mapping[str, Sequence[float]]) -> float:
    """How far the cell is from the middle, in ranks: 0 in the middle of every axis, 1/2 more for each end it is at."""
    mine = _numbers(cell)
    return sum(abs(values.index(mine[name]) / (len(values) - 1) - 0.5) for name, values in axes.items() if name in mine)
