"""Rank tests against scipy, exact and by the normal distribution, with ties and without."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ddqueue.domain.rank_tests import EXACT_ORDER, kendall_p, mann_whitney_p

DISTINCT = st.lists(st.floats(1, 1000), min_size=2, max_size=40, unique=True)
TIED = st.lists(st.integers(1, 5), min_size=1, max_size=14)


@given(DISTINCT, st.integers(1, 39))
def test_mann_and_whitney_without_ties_is_scipys(values: list[float], cut: int) -> None:
    cut = min(cut, len(values) - 1)
    a, b = values[:cut], values[cut:]
    assert mann_whitney_p(a, b) == pytest.approx(stats.mannwhitneyu(a, b).pvalue, rel=1e-10)


@given(TIED, TIED)
def test_mann_and_whitney_with_ties_is_scipys(a: list[int], b: list[int]) -> None:
    assert mann_whitney_p(a, b) == pytest.approx(stats.mannwhitneyu(a, b).pvalue, rel=1e-10)


def test_samples_that_lie_apart_have_the_share_of_the_two_extreme_splits() -> None:
    assert mann_whitney_p([1, 2, 3], [4, 5, 6]) == pytest.approx(2 / 20)
    assert mann_whitney_p([1, 1], [1, 1, 1]) == 1.0


@given(st.lists(st.floats(1, 1000), min_size=3, max_size=EXACT_ORDER + 10, unique=True))
def test_kendall_without_ties_is_scipys(values: list[float]) -> None:
    hours = list(range(len(values)))
    assert kendall_p(hours, values) == pytest.approx(stats.kendalltau(hours, values).pvalue, rel=1e-10)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4)), min_size=3, max_size=20))
def test_kendall_with_ties_is_scipys(pairs: list[tuple[int, int]]) -> None:
    x, y = [one for one, _ in pairs], [one for _, one in pairs]
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert kendall_p(x, y) == 1.0
    else:
        assert kendall_p(x, y) == pytest.approx(stats.kendalltau(x, y).pvalue, rel=1e-10)


def test_a_long_perfect_order_is_still_exact() -> None:
    values = list(range(EXACT_ORDER + 5))
    assert kendall_p(values, values) == pytest.approx(stats.kendalltau(values, values).pvalue, rel=1e-10)
