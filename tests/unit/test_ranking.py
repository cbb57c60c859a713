"""The order of configurations on a host at a point, the margin of the first, and who cannot be told from it."""

from __future__ import annotations

from random import Random

import pytest

from ddqueue.domain.noise import NoiseFloor, Spread, Visits
from ddqueue.domain.ranking import Candidate, rank
from ddqueue.domain.statistics import Difference
from ddqueue.domain.sweep import Point
from ddqueue.domain.verdict import Unranked, Verdict

ONE, MANY = Point(1, 4096, 256), Point(32, 60, 256)
FINE = Verdict((), "")
FLOOR = NoiseFloor(Spread(0.002**2, 12), Spread(0.003**2, 24), 3.0, 15)
RANDOM = Random(5)


def around(tok_s: float) -> Visits:
    return [[tok_s * (1 + RANDOM.gauss(0, 0.002)) for _ in range(4)] for _ in range(3)]


def row(
    label: str, tok_s: float, host: str = "rtx6000", verdict: Verdict = FINE, parallelism: str = "EP8"
) -> Candidate:
    return Candidate(label, host, parallelism, {ONE: around(tok_s), MANY: around(2000 / tok_s)}, verdict)


def known(host: str, parallelism: str, point: Point) -> NoiseFloor | None:
    return FLOOR


def test_each_host_and_point_has_its_own_order() -> None:
    rows = [row("b8 t4", 45.0), row("b12 t6", 47.6), row("b8 t4", 99.0, "b300"), row("b12 t6", 90.0, "b300")]
    rankings = {(one.host, one.point): one for one in rank(rows, known)}
    assert list(rankings) == [("rtx6000", ONE), ("rtx6000", MANY), ("b300", ONE), ("b300", MANY)]
    orders = {where: [place.candidate.label for place in one.places] for where, one in rankings.items()}
    assert orders["rtx6000", ONE] == orders["b300", MANY] == ["b12 t6", "b8 t4"]
    assert orders["rtx6000", MANY] == orders["b300", ONE] == ["b8 t4", "b12 t6"]
    first = rankings["rtx6000", ONE]
    assert [place.number for place in first.places] == [1, 2]
    assert first.places[0].mean_tok_s == pytest.approx(47.6, rel=0.005)
    assert first.places[0].against_first is None
    assert first.runner_up is not None
    assert first.runner_up.is_told_from_first is True
    assert first.words.startswith("rtx6000: b12 t6 beats b8 t4 at C=1 4k by 5.")


def test_who_cannot_be_told_from_the_first_is_named() -> None:
    (ranking, _) = rank([row("a", 100.0), row("b", 100.05), row("c", 100.02), row("d", 80.0)], known)
    first = ranking.places[0].candidate.label
    level = {place.candidate.label for place in ranking.level_with_first}
    assert level | {first} == {"a", "b", "c"}
    assert "within noise" in ranking.words
    assert f"; not told from {first} either: " in ranking.words
    assert ranking.places[3].candidate.label == "d"
    assert ranking.places[3].is_told_from_first is True


def test_what_is_not_ranked_stands_apart_however_fast() -> None:
    wrong = row("fast and wrong", 500.0, verdict=Verdict((Unranked.CORRECTNESS_DROP,), "coding alone: 1 of 5"))
    silent = Candidate("silent", "rtx6000", "EP8", {}, FINE)
    (ranking, _) = rank([wrong, row("right", 100.0), silent], known)
    assert [place.candidate.label for place in ranking.places] == ["right"]
    assert ranking.unranked == (wrong, silent)
    assert ranking.runner_up is None
    assert ranking.words == "rtx6000, C=1 4k: right stands alone"


def test_nothing_to_rank() -> None:
    (ranking, _) = rank([row("x", 1.0, verdict=Verdict((Unranked.FAILED,), "failed: OOM_RUN"))], known)
    assert ranking.words == "rtx6000, C=1 4k: nothing to rank"
    assert rank([], known) == ()


def test_across_parallelisms_the_wider_floor_counts_and_an_unknown_one_is_no_floor() -> None:
    wide = NoiseFloor(Spread(0.05**2, 12), Spread(0.003**2, 24), 3.0, 15)
    rows = [row("a", 100.0, parallelism="TP8"), row("b", 103.0, parallelism="EP8")]
    floors = {"TP8": wide, "EP8": FLOOR}
    (ranking, _) = rank(rows, lambda host, parallelism, point: floors[parallelism])
    assert ranking.runner_up is not None
    assert ranking.runner_up.is_told_from_first is False
    single = [Candidate(one.label, one.host, one.parallelism, {ONE: one.visits[ONE][:1]}, FINE) for one in rows]
    (unknown,) = rank(single, lambda host, parallelism, point: floors[parallelism] if parallelism == "EP8" else None)
    assert unknown.runner_up is not None
    assert unknown.runner_up.against_first is not None
    assert unknown.runner_up.against_first.verdict is Difference.UNCONTROLLED
