"""The noise floor against an analysis of variance, against its own promise, and in words; and two cells held to it."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from scipy import stats

from ddqueue.domain.comparison import compare_cells, inverse
from ddqueue.domain.noise import NoiseFloor, Spread, Visits, noise_floor, percent, pooled_spread
from ddqueue.domain.statistics import Difference, Interval

CONTROL = [[100.0, 101.0, 99.5], [103.0, 102.0, 102.5], [99.0, 98.0, 98.5], [101.0, 100.0, 100.4]]


def test_the_spreads_are_those_of_an_analysis_of_variance() -> None:
    floor = noise_floor(CONTROL)
    assert floor is not None
    logs = np.log(CONTROL)
    between, within = 3 * logs.mean(axis=1).var(ddof=1), logs.var(axis=1, ddof=1).mean()
    assert floor.visit == Spread(pytest.approx(between / 3), 3)
    assert floor.repeat == Spread(pytest.approx(within), 8)
    assert between / within == pytest.approx(stats.f_oneway(*logs).statistic)
    assert floor.start is not None
    assert floor.start.variance == pytest.approx((between - within) / 3)
    assert (floor.per_visit, floor.visits, floor.cells) == (pytest.approx(3), 4, 1)


def test_the_floor_is_t_times_the_spread_of_a_difference_of_visit_means() -> None:
    floor = noise_floor(CONTROL)
    assert floor is not None
    sd = np.log(CONTROL).mean(axis=1).std(ddof=1)
    assert floor.fraction == pytest.approx(math.expm1(stats.t.ppf(0.975, 3) * sd * math.sqrt(2)))
    assert floor.between(4, 2) == pytest.approx(math.expm1(stats.t.ppf(0.975, 3) * sd * math.sqrt(1 / 4 + 1 / 2)))
    assert floor.words == f"noise floor {floor.fraction * 100:.1f}%, from 4 visits"


def test_two_visits_of_an_unchanged_cell_exceed_the_floor_once_in_twenty() -> None:
    random, sweeps, exceeded = Random(7), 3000, 0

    def visit() -> list[float]:
        start = random.gauss(0, 0.01)
        return [100 * math.exp(start + random.gauss(0, 0.01)) for _ in range(3)]

    for _ in range(sweeps):
        floor = noise_floor([visit() for _ in range(5)])
        assert floor is not None
        a, b = (math.fsum(map(math.log, visit())) / 3 for _ in range(2))
        exceeded += abs(a - b) > math.log1p(floor.fraction)
    assert exceeded / sweeps == pytest.approx(0.05, abs=3 * math.sqrt(0.05 * 0.95 / sweeps))


def test_every_cell_that_was_visited_twice_helps_and_its_speed_does_not_matter() -> None:
    twice_as_fast = [[2 * value for value in visit] for visit in CONTROL]
    alone, both = noise_floor(CONTROL), noise_floor(CONTROL, twice_as_fast, [[500.0, 700.0]])
    assert alone is not None
    assert both is not None
    assert both.visit == Spread(pytest.approx(alone.visit.variance), 6)
    assert both.fraction < alone.fraction
    assert both.words.endswith("from 8 visits of 2 cells")


def test_without_a_second_visit_the_floor_is_unknown() -> None:
    assert noise_floor() is None
    assert noise_floor([[100.0, 101.0, 99.0]]) is None
    assert noise_floor([[100.0, 101.0], []], [[5.0]]) is None
    assert noise_floor([[100.0, 0.0], [100.0]]) is None


def test_two_visits_make_a_floor_that_says_how_little_it_knows() -> None:
    floor = noise_floor(CONTROL[:2])
    assert floor is not None
    assert floor.visit.freedom == 1
    assert "from 2 visits: so few" in floor.words


def test_steady_starts_leave_nothing_to_the_starts() -> None:
    floor = noise_floor([[100.0, 110.0], [109.0, 101.0], [105.0, 104.9]])
    assert floor is not None
    assert floor.start is None


def test_visits_of_one_repeat_know_no_spread_within() -> None:
    floor = noise_floor([[100.0], [102.0], [101.0]])
    assert floor is not None
    assert floor.repeat is None
    assert floor.start == floor.visit


def test_a_pooled_spread_leaves_out_what_groups_differ_by() -> None:
    assert pooled_spread([[1.0, 3.0], [11.0, 13.0], [50.0], []]) == Spread(2.0, 2)
    assert pooled_spread([[1.0], []]) is None


@pytest.mark.parametrize(
    ("fraction", "text"), [(0.0, "0.0%"), (0.0126, "1.3%"), (0.00042, "0.042%"), (-0.031, "-3.1%"), (1.5, "150.0%")]
)
def test_percents(fraction: float, text: str) -> None:
    assert percent(fraction) == text


STEADY = NoiseFloor(Spread(0.003**2, 10), Spread(0.005**2, 20), 3.0, 12)
SLOW = [[100.0, 100.5, 99.5, 100.2], [99.8, 100.4, 100.1, 99.9]]


def times(cell: Visits, factor: float) -> Visits:
    return [[value * factor for value in visit] for visit in cell]


@pytest.mark.parametrize(
    ("factor", "verdict", "beyond"),
    [
        (1.046, Difference.DIFFERENT, True),
        (1 / 1.046, Difference.DIFFERENT, True),
        (1.0055, Difference.TOO_SMALL, False),
        (1.001, Difference.NOT_SHOWN, False),
    ],
)
def test_a_difference_is_significant_and_beyond_the_floor(factor: float, verdict: Difference, beyond: bool) -> None:
    compared = compare_cells(SLOW, times(SLOW, factor), STEADY)
    assert compared.verdict is verdict
    assert compared.is_beyond_noise is beyond
    assert compared.ratio is not None
    assert compared.ratio.mean == pytest.approx(factor)
    assert compared.floor == STEADY.between(2, 2)


def test_the_interval_is_that_of_welch_where_starts_add_nothing() -> None:
    a, b = [[100.0, 101.0, 99.0]], [[104.0, 106.0, 103.0, 105.0]]
    no_starts = NoiseFloor(Spread(0.0, 5), Spread(0.0, 10), 3.0, 6)
    compared = compare_cells(a, b, no_starts)
    theirs = stats.ttest_ind(np.log(b[0]), np.log(a[0]), equal_var=False)
    bounds = theirs.confidence_interval(0.95)
    assert compared.ratio is not None
    assert (compared.ratio.low, compared.ratio.high) == pytest.approx((math.exp(bounds.low), math.exp(bounds.high)))
    assert compared.p_value == pytest.approx(theirs.pvalue)
    assert compared.ratio.n == 7


def test_what_the_starts_add_widens_the_interval() -> None:
    restless = NoiseFloor(Spread(0.03**2, 5), Spread(0.005**2, 12), 3.0, 6)
    calm, wide = (compare_cells(SLOW, times(SLOW, 1.03), floor) for floor in (STEADY, restless))
    assert calm.verdict is Difference.DIFFERENT
    assert wide.verdict is Difference.NOT_SHOWN
    assert calm.ratio is not None
    assert wide.ratio is not None
    assert wide.ratio.half_width > 3 * calm.ratio.half_width


def test_larger_than_the_floor_and_not_significant_asks_for_more_repeats() -> None:
    compared = compare_cells([[100.0, 112.0]], [[120.0, 106.0]], STEADY)
    assert compared.verdict is Difference.TOO_FEW
    assert compared.is_beyond_noise is None
    assert "b against a at C=1 60: too few repeats to say (+6.6% ±" in compared.words("a", "b", "C=1 60")


def test_one_repeat_borrows_the_spread_of_the_control_cells_repeats() -> None:
    compared = compare_cells([[100.0]], [[110.0]], STEADY)
    assert compared.verdict is Difference.DIFFERENT
    assert compare_cells([[100.0]], [[110.0]], None).verdict is Difference.TOO_FEW
    assert compare_cells([[100.0]], [[110.0]], None).ratio is None


def test_one_repeat_a_visit_everywhere_is_judged_by_the_visits() -> None:
    a, b = [[100.0], [101.0], [99.0]], [[110.0], [111.0], [109.0]]
    compared = compare_cells(a, b, None)
    assert compared.verdict is Difference.DIFFERENT
    assert compared.p_value == pytest.approx(stats.ttest_ind(np.log(a), np.log(b)).pvalue[0])


def test_without_any_second_visit_only_the_runs_differ() -> None:
    compared = compare_cells(SLOW[:1], times(SLOW[:1], 1.06), None)
    assert compared.verdict is Difference.UNCONTROLLED
    assert (compared.floor, compared.is_beyond_noise) == (None, None)
    words = compared.words("w2048", "none", "C=32 60")
    assert words.startswith("none's run beats w2048's at C=32 60 by 6.0% ±")
    assert words.endswith("no cell was visited twice, so another start of the same server might too")


@pytest.mark.parametrize("broken", [[], [[]], [[100.0, 0.0]], [[-1.0, 5.0]]])
def test_what_cannot_be_compared_is_too_few(broken: Visits) -> None:
    compared = compare_cells(SLOW, broken, STEADY)
    assert (compared.verdict, compared.ratio, compared.p_value) == (Difference.TOO_FEW, None, None)
    assert compared.words("a", "b", "C=1 60") == "b against a at C=1 60: too few repeats to say"


def test_numbers_without_any_noise_differ_or_do_not() -> None:
    still = NoiseFloor(Spread(0.0, 5), Spread(0.0, 10), 3.0, 6)
    same, other = (compare_cells([[5.0, 5.0]], [[value, value]], still) for value in (5.0, 6.0))
    assert (same.verdict, same.p_value) == (Difference.NOT_SHOWN, 1.0)
    assert (other.verdict, other.p_value) == (Difference.DIFFERENT, 0.0)


def test_the_words_name_the_faster_cell_whichever_it_is() -> None:
    forth = compare_cells(SLOW, times(SLOW, 1.046), STEADY)
    back = compare_cells(times(SLOW, 1.046), SLOW, STEADY)
    assert forth.words("b8 t4", "b12 t6", "C=1 4k").startswith("b12 t6 beats b8 t4 at C=1 4k by 4.6% ±")
    assert back.words("b12 t6", "b8 t4", "C=1 4k") == forth.words("b8 t4", "b12 t6", "C=1 4k")
    level = compare_cells(SLOW, times(SLOW, 0.999), STEADY)
    floor = percent(STEADY.between(2, 2))
    assert (
        level.words("b8 t4", "b12 t6", "C=1 4k")
        == f"b12 t6 against b8 t4 at C=1 4k: within noise (-0.1%, floor {floor})"
    )


def test_a_difference_that_one_wild_repeat_makes_is_said_to_hang_on_few() -> None:
    a = [[100.0, 100.1, 99.9, 100.0], [100.0, 100.1, 99.9, 100.0]]
    b = [[100.0, 100.1, 99.9, 100.05], [99.95, 100.1, 99.9, 101.0]]
    loud = compare_cells(a, b, NoiseFloor(Spread(1e-9, 20), Spread(1e-9, 20), 4.0, 20), significance=0.4)
    assert loud.verdict is Difference.DIFFERENT
    assert loud.hangs_on_few_repeats
    assert loud.words("a", "b", "C=1 60").endswith("; it hangs on few repeats")
    assert not compare_cells(a, times(a, 1.05), STEADY).hangs_on_few_repeats


def test_an_inverse_ratio_swaps_its_bounds() -> None:
    assert inverse(Interval(0.5, 0.4, 0.8, 6)) == Interval(2.0, 1.25, 2.5, 6)
