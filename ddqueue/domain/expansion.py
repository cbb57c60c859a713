"""How a sweep's axes become settings: listed ones, then the product of a grid with axes that go together.

Settings are mappings from an axis's name to its value; a value only needs to compare.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

Value = TypeVar("Value")
Axes = Mapping[str, Sequence[Value]]


def size(listed: int, grid: Axes[Value], together: Axes[Value]) -> int:
    """How many settings `expand` will yield, without building any.

    `listed` is the number of settings written one by one. The axes of `together` have equal lengths.
    """
    if not grid and not together:
        return listed
    rows = min((len(values) for values in together.values()), default=1)
    return listed + math.prod(len(values) for values in grid.values()) * rows


def expand(
    listed: Sequence[Mapping[str, Value]], grid: Axes[Value], together: Axes[Value]
) -> Iterator[dict[str, Value]]:
    """The listed settings in their order, then every combination of the grid with every row of `together`.

    The first axis varies slowest, as nested loops in the file's order would; rows of `together` vary fastest.

    Raises:
        ValueError: the axes of `together` differ in length, or an axis is both in it and in the grid.
    """
    if len({len(values) for values in together.values()}) > 1:
        raise ValueError("axes that go together must have equal lengths")
    if both := set(grid) & set(together):
        raise ValueError(f"axes both in the grid and together: {sorted(both)}")
    yield from (dict(settings) for settings in listed)
    if not grid and not together:
        return
    rows = [dict(zip(together, row, strict=True)) for row in zip(*together.values(), strict=True)] if together else [{}]
    for combination in itertools.product(*grid.values()):
        for row in rows:
            yield {**dict(zip(grid, combination, strict=True)), **row}


def matches(settings: Mapping[str, Value], partial: Mapping[str, Value]) -> bool:
    """Whether `settings` gives every key of `partial` its value."""
    return all(key in settings and settings[key] == value for key, value in partial.items())
