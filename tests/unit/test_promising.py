"""The middle of the axes first."""

from __future__ import annotations

from ddqueue.domain.configuration import Cell, Speculation
from ddqueue.domain.promising import middle_first


def cell(budget: int | None, topk: int = 4) -> Cell:
    return Cell("m", "e", None if budget is None else Speculation(block_size=8, budget=budget, topk=topk, window=None))


def names(cells: list[Cell]) -> list[str]:
    ordered = [cells[place].speculation for place in middle_first(cells)]
    return ["baseline" if one is None else f"b{one.budget} t{one.topk}" for one in ordered]


def test_the_middle_comes_first_and_the_ends_last() -> None:
    cells = [cell(2), cell(4), cell(8), cell(12), cell(16), cell(None)]
    assert names(cells) == ["baseline", "b8 t4", "b4 t4", "b12 t4", "b2 t4", "b16 t4"]


def test_every_axis_counts_and_ties_stay_in_the_order_of_the_file() -> None:
    cells = [cell(budget, topk) for budget in (4, 8, 12) for topk in (2, 4, 6)]
    order = names(cells)
    assert order[0] == "b8 t4"
    assert order[1:5] == ["b4 t4", "b8 t2", "b8 t6", "b12 t4"]
    assert sorted(middle_first(cells)) == list(range(9))


def test_what_does_not_differ_is_no_axis() -> None:
    assert middle_first([cell(8)]) == [0]
    assert middle_first([]) == []
