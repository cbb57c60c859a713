"""The standard deviation, bit by bit that of the standard library."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddqueue.domain.deviation import stdev

ANY = st.floats(allow_nan=False, allow_infinity=False, width=64)


@given(st.lists(ANY, min_size=2, max_size=12))
def test_it_is_the_standard_librarys_for_any_numbers(values: list[float]) -> None:
    assert _bits(stdev, values) == _bits(statistics.stdev, values)


@given(st.lists(st.floats(min_value=100.0, max_value=101.0), min_size=2, max_size=40))
def test_it_is_the_standard_librarys_for_numbers_close_together(values: list[float]) -> None:
    assert stdev(values).hex() == statistics.stdev(values).hex()


@pytest.mark.parametrize(
    ("values", "found"), [([2.0, 2.0, 2.0], 0.0), ([1.0, 3.0], 2**0.5), ([1, 2, 3, 4, 5], 2.5**0.5)]
)
def test_known_values(values: list[float], found: float) -> None:
    assert stdev(values) == found


@pytest.mark.parametrize("values", [[], [1.0], [1.0, float("nan")]])
def test_fewer_than_two_numbers_have_none(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"needs two values|NaN"):
        stdev(values)


def _bits(deviation: Callable[[list[float]], float], values: list[float]) -> str:
    """Its hexadecimal, or the error where the result is beyond every float."""
    try:
        return deviation(values).hex()
    except OverflowError as error:
        return type(error).__name__
