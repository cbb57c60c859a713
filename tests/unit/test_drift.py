"""Trends against scipy, against every order of a short series, and on series whose trend is known."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import permutations
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ddqueue.domain.drift import FEWEST, drift, levels, theil_sen_slope

START = datetime(2026, 1, 1, tzinfo=UTC)


def hourly(count: int) -> list[datetime]:
    return [START + timedelta(hours=hour) for hour in range(count)]


@given(st.lists(st.floats(min_value=50, max_value=150), min_size=3, max_size=12))
def test_the_slope_is_that_of_theil_and_sen(values: list[float]) -> None:
    times = [hour**1.2 for hour in range(len(values))]
    assert theil_sen_slope(times, values) == pytest.approx(stats.theilslopes(values, times).slope, abs=1e-9)


def test_a_slope_needs_two_moments() -> None:
    with pytest.raises(ValueError, match="different x"):
        theil_sen_slope([1.0, 1.0], [3.0, 4.0])


def test_the_p_value_is_the_share_of_orders_that_are_so_well_ordered() -> None:
    values = [103.0, 102.0, 102.5, 101.0, 100.0, 100.4]
    found = drift(hourly(6), values)
    assert found is not None
    assert found.p_value == pytest.approx(stats.kendalltau(range(6), values).pvalue)

    def score(order: tuple[float, ...]) -> int:
        return abs(sum(int(np.sign(order[j] - order[i])) for i in range(6) for j in range(i + 1, 6)))

    orders = [score(order) for order in permutations(values)]
    assert found.p_value == pytest.approx(sum(one >= score(tuple(values)) for one in orders) / len(orders))


def test_a_steady_fall_is_found_with_its_size() -> None:
    found = drift(hourly(6), [100 * 0.99**hour for hour in range(6)])
    assert found is not None
    assert found.is_shown
    assert found.total_fraction == pytest.approx(0.99**5 - 1)
    assert found.per_hour_fraction == pytest.approx((0.99**5 - 1) / 5)
    assert found.p_value == pytest.approx(2 / math.factorial(6))
    assert found.words() == (
        "the control cell fell by 4.9% over 6 visits (p = 0.0028): results late in the sweep read low"
    )


def test_repeats_that_rise_within_a_run() -> None:
    at = [START + timedelta(seconds=0.2 * repeat) for repeat in range(7)]
    found = drift(at, [100.0, 101.0, 103.0, 104.0, 106.0, 107.0, 109.0])
    assert found is not None
    words = found.words("b8 t4 at C=1 60", of="repeats")
    assert words.startswith("b8 t4 at C=1 60 rose by 9.")
    assert words.endswith("over 7 repeats (p = 0.0004): results late in the run read high")


def test_the_order_in_which_values_are_given_does_not_matter() -> None:
    times, values = hourly(6), [105.0, 104.0, 103.5, 102.0, 101.0, 100.0]
    assert drift(times[::-1], values[::-1]) == drift(times, values)


def test_one_bad_visit_does_not_hide_a_trend_nor_make_one() -> None:
    falling, level = [100.0, 99.0, 98.0, 130.0, 96.0, 95.0, 94.0, 93.0], [100.0, 100.2, 99.9, 100.1, 99.8, 60.0]
    hidden, made = drift(hourly(8), falling), drift(hourly(6), level)
    assert hidden is not None
    assert made is not None
    assert hidden.is_shown
    assert hidden.total_fraction == pytest.approx(-0.07, abs=0.005)
    assert not made.is_shown
    assert made.words().startswith("the control cell shows no trend over 6 visits (p = 0.1")


@pytest.mark.parametrize(
    ("times", "values"),
    [
        (hourly(FEWEST - 1), [4.0, 3.0, 2.0, 1.0]),
        (hourly(5), [4.0, 3.0, 2.0, 1.0, 0.0]),
        ([START] * 5, [5.0, 4.0, 3.0, 2.0, 1.0]),
    ],
)
def test_what_has_no_trend_to_speak_of(times: list[datetime], values: list[float]) -> None:
    assert drift(times, values) is None


def test_values_that_never_change_show_none() -> None:
    found = drift(hourly(5), [7.0] * 5)
    assert found is not None
    assert (found.p_value, found.total_fraction, found.is_shown) == (1.0, 0.0, False)


def test_fewest_is_the_first_count_at_which_a_trend_can_be_shown() -> None:
    assert stats.kendalltau(range(FEWEST - 1), range(FEWEST - 1)).pvalue > 0.05
    assert stats.kendalltau(range(FEWEST), range(FEWEST)).pvalue < 0.05


def test_noise_alone_seldom_shows_a_trend() -> None:
    random, sweeps = Random(3), 1000
    shown = 0
    for _ in range(sweeps):
        found = drift(hourly(6), [random.gauss(100, 1) for _ in range(6)])
        assert found is not None
        shown += found.is_shown
    assert shown / sweeps <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / sweeps)


def test_levels_are_what_all_points_of_a_visit_have_in_common() -> None:
    assert levels([[100.0, 110.0, 100.0], [50.0, 55.0, 50.0]]) == pytest.approx(
        [1.1 ** (-1 / 3), 1.1 ** (2 / 3), 1.1 ** (-1 / 3)]
    )
    with pytest.raises(ValueError, match="argument 2"):
        levels([[100.0, 110.0], [50.0]])
