"""How axes become settings."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddqueue.domain.expansion import expand, matches, size

VALUES = st.lists(st.integers(0, 5), min_size=0, max_size=3)
GRIDS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)
LISTED = st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 5)), max_size=3)
ROWS = st.integers(0, 3).flatmap(
    lambda rows: st.dictionaries(
        st.sampled_from("xyz"), st.lists(st.integers(0, 5), min_size=rows, max_size=rows), max_size=2
    )
)


def test_listed_settings_come_first_then_the_product_with_rows_that_go_together() -> None:
    found = list(expand([{"a": 9}], {"a": [1, 2], "b": [3]}, {"x": [5, 6], "y": [7, 8]}))
    assert found == [
        {"a": 9},
        {"a": 1, "b": 3, "x": 5, "y": 7},
        {"a": 1, "b": 3, "x": 6, "y": 8},
        {"a": 2, "b": 3, "x": 5, "y": 7},
        {"a": 2, "b": 3, "x": 6, "y": 8},
    ]


def test_axes_that_go_together_stand_alone_too() -> None:
    assert list(expand([], {}, {"x": [5, 6], "y": [7, 8]})) == [{"x": 5, "y": 7}, {"x": 6, "y": 8}]


def test_no_axis_is_no_cell_and_an_empty_axis_is_none_either() -> None:
    assert list(expand([], {}, {})) == []
    assert list(expand([], {"a": [], "b": [1]}, {})) == []


def test_a_size_beyond_anything_that_could_be_built() -> None:
    assert size(3, {str(axis): range(1000) for axis in range(10)}, {"x": [1, 2]}) == 3 + 2 * 1000**10


@given(LISTED, GRIDS, ROWS)
def test_the_size_computed_is_the_number_built(
    listed: list[dict[str, int]], grid: dict[str, list[int]], together: dict[str, list[int]]
) -> None:
    assert size(len(listed), grid, together) == len(list(expand(listed, grid, together)))


@given(GRIDS.filter(bool))
def test_a_grid_is_the_product_of_its_axes(grid: dict[str, list[int]]) -> None:
    found = [tuple(settings.values()) for settings in expand([], grid, {})]
    assert found == list(itertools.product(*grid.values()))


def test_axes_that_differ_in_length_or_stand_in_both_are_refused() -> None:
    with pytest.raises(ValueError, match="equal lengths"):
        list(expand([], {}, {"x": [1], "y": [1, 2]}))
    with pytest.raises(ValueError, match=r"\['x'\]"):
        list(expand([], {"x": [1]}, {"x": [1]}))


def test_partial_settings_match_by_every_key_they_give() -> None:
    assert matches({"a": 1, "b": 2}, {"a": 1})
    assert matches({"a": 1}, {})
    assert not matches({"a": 1, "b": 2}, {"a": 1, "b": 3})
    assert not matches({"a": 1}, {"b": 2})
