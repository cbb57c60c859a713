"""When a cell is given up early, and that a winner is not."""

from __future__ import annotations

from random import Random

import pytest

from ddqueue.domain.dominance import Rival, dominated
from ddqueue.domain.sweep import Point

ALONE, BATCH = Point(1, 60, 256), Point(32, 60, 256)
STRONG = Rival(7, "b12 t6", {ALONE: (118.0, 119.0, 117.0), BATCH: (1310.0, 1312.0, 1308.0)})


def test_slower_everywhere_is_given_up_and_the_words_say_to_whom() -> None:
    found = dominated({ALONE: [100.0], BATCH: [1000.0]}, [STRONG])
    assert found is not None
    assert found.words == "b12 t6 (job 7) is faster everywhere: +18% at C=1 60, +31% at C=32 60"


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param({ALONE: [100.0], BATCH: [1400.0]}, id="better at one point"),
        pytest.param({ALONE: [100.0], BATCH: [1250.0]}, id="only a little slower at one point"),
        pytest.param({ALONE: [100.0], BATCH: []}, id="a point not yet measured"),
        pytest.param({ALONE: [100.0], Point(8, 60, 256): [10.0]}, id="a point the other lacks"),
        pytest.param({}, id="nothing measured"),
    ],
)
def test_a_cell_that_may_still_win_is_not(seen: dict[Point, list[float]]) -> None:
    assert dominated(seen, [STRONG]) is None


def test_two_rivals_that_each_win_somewhere_do_not_dominate_together() -> None:
    alone = Rival(1, "fast alone", {ALONE: (150.0, 150.0), BATCH: (900.0, 900.0)})
    batch = Rival(2, "fast in a batch", {ALONE: (80.0, 80.0), BATCH: (2000.0, 2000.0)})
    assert dominated({ALONE: [100.0], BATCH: [1000.0]}, [alone, batch]) is None


def test_of_several_the_one_that_leads_most_everywhere_is_named() -> None:
    stronger = Rival(9, "b8 t4", {ALONE: (130.0, 130.0), BATCH: (1300.0, 1300.0)})
    found = dominated({ALONE: [100.0], BATCH: [1000.0]}, [STRONG, stronger])
    assert found is not None
    assert found.rival.label == "b8 t4"


def test_a_rival_that_scatters_leads_by_less_than_it_seems() -> None:
    restless = Rival(3, "restless", {ALONE: (90.0, 120.0, 150.0)})
    assert dominated({ALONE: [100.0]}, [restless]) is None
    assert dominated({ALONE: [100.0]}, [Rival(3, "once", {ALONE: (200.0,)})]) is None


def test_the_best_cell_is_not_given_up_by_bad_luck() -> None:
    """It is 3% faster than 40 others; a start differs by 1.5%, the same at both points, and so does a repeat."""
    chance = Random(20241129)

    def start(speed: float, repeats: int) -> dict[Point, list[float]]:
        mean = chance.gauss(speed, 1.5)
        return {point: [chance.gauss(mean, 1.5) for _ in range(repeats)] for point in (ALONE, BATCH)}

    rivals = [Rival(number, f"cell {number}", start(100.0, 3)) for number in range(40)]
    assert sum(dominated(start(103.0, 1), rivals) is not None for _ in range(500)) == 0
    assert sum(dominated(start(80.0, 1), rivals) is not None for _ in range(500)) >= 495
