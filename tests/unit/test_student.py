"""Student's t against the tables and against scipy."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from ddqueue.domain.student import t_quantile, t_two_sided


@pytest.mark.parametrize(
    ("probability", "freedom", "table"),
    [(0.975, 1, 12.7062), (0.975, 2, 4.3027), (0.95, 9, 1.8331), (0.5, 4, 0.0), (0.025, 2, -4.3027)],
)
def test_quantiles_are_those_of_the_tables(probability: float, freedom: int, table: float) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(table, abs=1e-4)


@given(st.floats(min_value=0.001, max_value=0.9995), st.floats(min_value=0.5, max_value=2000))
def test_quantiles_are_scipys(probability: float, freedom: float) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(
        float(special.stdtrit(freedom, probability)), rel=1e-8, abs=1e-10
    )


@given(st.floats(min_value=-300, max_value=300), st.floats(min_value=0.5, max_value=2000))
def test_two_sided_p_values_are_scipys(t: float, freedom: float) -> None:
    assert t_two_sided(t, freedom) == pytest.approx(2 * stats.t.sf(abs(t), freedom), rel=1e-8, abs=1e-300)


@pytest.mark.parametrize("freedom", [1e5, 9.9e5, 1.1e6, 1e9])
def test_many_degrees_of_freedom_are_nearly_normal(freedom: float) -> None:
    assert t_quantile(0.975, freedom) == pytest.approx(float(special.stdtrit(freedom, 0.975)), rel=1e-9)
    assert t_two_sided(1.7, freedom) == pytest.approx(2 * stats.t.sf(1.7, freedom), rel=1e-8)


def test_no_distance_is_certain_and_an_infinite_one_impossible() -> None:
    assert (t_two_sided(0.0, 3), t_two_sided(math.inf, 3)) == (1.0, 0.0)


@given(st.floats(min_value=0.51, max_value=0.999), st.floats(min_value=0.5, max_value=500))
def test_the_quantile_undoes_the_p_value(probability: float, freedom: float) -> None:
    t = t_quantile(probability, freedom)
    assert 1 - t_two_sided(t, freedom) / 2 == pytest.approx(probability, rel=1e-11)
