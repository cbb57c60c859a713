"""Whole simulated sweeps: a planted difference is found, and none is found where none was planted.

Each simulated sweep visits a control cell through its course and two cells in between; every visit is a start of the
server with a deviation of its own, and its repeats go on until they are `enough`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from random import Random

import pytest

from ddqueue.domain import comparison, noise, statistics
from ddqueue.domain.comparison import CellComparison, compare_cells
from ddqueue.domain.noise import Visits, noise_floor
from ddqueue.domain.ranking import Candidate, rank
from ddqueue.domain.statistics import Difference, enough
from ddqueue.domain.student import t_quantile
from ddqueue.domain.sweep import Point, Repeats
from ddqueue.domain.verdict import Verdict

SEEDS = range(200)
DEFAULT = Repeats()
POINT = Point(1, 4096, 256)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quantile asked for a hundred thousand times is one of a few hundred."""
    for module in (statistics, noise, comparison):
        monkeypatch.setattr(module, "t_quantile", cache(t_quantile))


@dataclass(frozen=True)
class Plan:
    """A sweep: how often cells are visited and repeated, and how noisy the box is (fractions)."""

    repeat_noise: float
    start_noise: float = 0.0
    visits: int = 3
    control_visits: int = 6
    repeats: Repeats = DEFAULT

    def cell(self, random: Random, tok_s: float, visits: int) -> Visits:
        return [self.visit(random, tok_s * (1 + random.gauss(0, self.start_noise))) for _ in range(visits)]

    def visit(self, random: Random, tok_s: float) -> list[float]:
        values: list[float] = []
        while not enough(values, self.repeats):
            values.append(tok_s * (1 + random.gauss(0, self.repeat_noise)))
        return values

    def run(self, seed: int, planted: float) -> CellComparison:
        random = Random(seed)
        control = self.cell(random, 60.0, self.control_visits)
        a, b = (self.cell(random, tok_s, self.visits) for tok_s in (100.0, 100.0 * (1 + planted)))
        return compare_cells(a, b, noise_floor(control, a, b))


def different(plan: Plan, planted: float, seeds: range = SEEDS) -> float:
    """The share of sweeps in which b was called different from a; wherever it is, it is on the right side of it."""
    found = [plan.run(seed, planted) for seed in seeds]
    called = [one for one in found if one.verdict is Difference.DIFFERENT]
    if planted:
        assert all(one.ratio is not None and (one.ratio.mean > 1) == (planted > 0) for one in called)
    return len(called) / len(seeds)


@pytest.mark.parametrize("planted", [0.02, -0.02])
def test_a_planted_2_percent_is_called_different_under_1_percent_of_noise(planted: float) -> None:
    assert different(Plan(repeat_noise=0.01), planted) >= 0.95


def test_nothing_planted_is_not_called_different_under_3_percent_of_noise() -> None:
    assert different(Plan(repeat_noise=0.03), 0.0) <= 0.05


def test_two_visits_do_where_the_repeats_go_on_to_1_percent() -> None:
    repeats = Repeats(3, 12, 0.01)
    assert different(Plan(repeat_noise=0.01, visits=2, repeats=repeats), 0.02) >= 0.95
    assert different(Plan(repeat_noise=0.03, visits=2, repeats=repeats), 0.0, range(400)) <= 0.05


@pytest.mark.parametrize(
    "plan",
    [
        Plan(repeat_noise=0.03),
        Plan(repeat_noise=0.01, start_noise=0.01),
        Plan(repeat_noise=0.005, start_noise=0.02),
        Plan(repeat_noise=0.03, start_noise=0.01),
        Plan(repeat_noise=0.01, start_noise=0.01, visits=1),
        Plan(repeat_noise=0.01, start_noise=0.02, visits=1, control_visits=3),
    ],
    ids=repr,
)
def test_equal_cells_are_called_different_no_more_than_once_in_twenty(plan: Plan) -> None:
    sweeps = 200
    assert different(plan, 0.0, range(sweeps)) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / sweeps)


def test_starts_that_differ_would_fool_a_test_that_only_knows_repeats() -> None:
    plan = Plan(repeat_noise=0.003, start_noise=0.02, visits=1)
    fooled = 0
    for seed in SEEDS:
        random = Random(seed)
        control = plan.cell(random, 60.0, 6)
        a, b = plan.cell(random, 100.0, 1), plan.cell(random, 100.0, 1)
        fooled += compare_cells(a, b, None).verdict is Difference.UNCONTROLLED
        assert compare_cells(a, b, None).is_beyond_noise is not True
        assert compare_cells(a, b, noise_floor(control)).floor is not None
    assert fooled / len(SEEDS) > 0.6
    assert different(plan, 0.0) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / len(SEEDS))


def test_the_interval_of_the_ratio_holds_the_planted_one() -> None:
    plan, sweeps = Plan(repeat_noise=0.01, start_noise=0.005), 200
    ratios = [plan.run(seed, 0.02).ratio for seed in range(sweeps)]
    held = sum(ratio is not None and ratio.low <= 1.02 <= ratio.high for ratio in ratios)
    assert held / sweeps >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / sweeps)


def test_the_best_of_five_equal_cells_is_seldom_said_to_beat_the_next() -> None:
    plan, beaten = Plan(repeat_noise=0.03), 0
    for seed in SEEDS:
        random = Random(seed)
        cells = [plan.cell(random, 100.0, 3) for _ in range(5)]
        floor = noise_floor(*cells)
        rows = [Candidate(f"c{index}", "h", "TP8", {POINT: cell}, Verdict((), "")) for index, cell in enumerate(cells)]
        (ranking,) = rank(rows, lambda host, parallelism, point, floor=floor: floor)
        assert ranking.runner_up is not None
        beaten += ranking.runner_up.is_told_from_first is True
    assert beaten / len(SEEDS) <= 0.05
