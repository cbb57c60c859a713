"""Which configuration is fastest on a host at a point, by how much, and whether that is more than noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from ddqueue.domain.comparison import CellComparison, compare_cells
from ddqueue.domain.noise import NoiseFloor, Visits
from ddqueue.domain.sweep import Point
from ddqueue.domain.verdict import Verdict


@dataclass(frozen=True)
class Candidate:
    """One row of results: a cell on a host with one parallelism. `label` is what a person calls it there.

    `visits` holds the output throughputs (tok/s) of the valid repeats at each point, visit by visit.
    """

    label: str
    host: str
    parallelism: str
    visits: Mapping[Point, Visits]
    verdict: Verdict


@dataclass(frozen=True)
class Place:
    """A candidate in its place, from 1. `mean_tok_s` is the geometric mean over its visits.

    `against_first` compares the first place with it; None for the first itself.
    """

    number: int
    candidate: Candidate
    mean_tok_s: float
    against_first: CellComparison | None

    @property
    def is_told_from_first(self) -> bool | None:
        """Whether the first is faster by more than noise; None where that cannot be said, or this is the first."""
        return self.against_first.is_beyond_noise if self.against_first else None


@dataclass(frozen=True)
class Ranking:
    """The candidates of one host at one point, fastest first; and those without a place, with their verdicts."""

    host: str
    point: Point
    places: tuple[Place, ...]
    unranked: tuple[Candidate, ...]

    @property
    def runner_up(self) -> Place | None:
        return self.places[1] if len(self.places) > 1 else None

    @property
    def level_with_first(self) -> tuple[Place, ...]:
        """The places that have not been told from the first: any of them may be the fastest."""
        return tuple(place for place in self.places[1:] if place.is_told_from_first is not True)

    @property
    def words(self) -> str:
        """`rtx6000: b12 t6 beats b8 t4 at C=1 4k by 4.6% ±1.1%`, and who cannot be told from the first."""
        if not self.places:
            return f"{self.host}, {self.point.label}: nothing to rank"
        first = self.places[0].candidate.label
        runner_up = self.runner_up
        if runner_up is None or runner_up.against_first is None:
            return f"{self.host}, {self.point.label}: {first} stands alone"
        text = runner_up.against_first.words(runner_up.candidate.label, first, self.point.label)
        others = [place.candidate.label for place in self.level_with_first if place is not runner_up]
        more = f"; not told from {first} either: {', '.join(others)}" if others else ""
        return f"{self.host}: {text}{more}"


def rank(candidates: Sequence[Candidate], floor: Callable[[str, str, Point], NoiseFloor | None]) -> tuple[Ranking, ...]:
    """One ranking for each host and point, in the order in which they first appear; `floor` gives the noise floor of a
    host, parallelism and point.

    Candidates of several parallelisms of a host stand in one ranking; two of them are held against the wider of their
    floors. The first place is compared with every other: of many equal cells one is always first, so read a difference
    that is only just beyond noise as one of as many tries.
    """
    hosts = dict.fromkeys(candidate.host for candidate in candidates)
    return tuple(
        _ranking(host, point, [candidate for candidate in candidates if candidate.host == host], floor)
        for host in hosts
        for point in dict.fromkeys(
            point for candidate in candidates if candidate.host == host for point in candidate.visits
        )
    )


def _ranking(
    host: str,
    point: Point,
    candidates: Iterable[Candidate],
    floor: Callable[[str, str, Point], NoiseFloor | None],
) -> Ranking:
    ranked, unranked = [], []
    for candidate in candidates:
        mean = _mean(candidate.visits.get(point, ()))
        if candidate.verdict.is_ranked and mean is not None:
            ranked.append((mean, candidate))
        else:
            unranked.append(candidate)
    ranked.sort(key=lambda pair: -pair[0])
    places = []
    for number, (mean, candidate) in enumerate(ranked, start=1):
        first = ranked[0][1]
        against = None
        if number > 1:
            floors = [floor(host, one.parallelism, point) for one in (first, candidate)]
            against = compare_cells(candidate.visits[point], first.visits[point], wider(floors))
        places.append(Place(number, candidate, mean, against))
    return Ranking(host, point, tuple(places), tuple(unranked))


def wider(floors: Sequence[NoiseFloor | None]) -> NoiseFloor | None:
    """The largest of the floors that the compared cells stand on; None where one is unknown: the floor of another host
    or parallelism says nothing about this one."""
    known = [floor for floor in floors if floor is not None]
    return max(known, key=lambda floor: floor.fraction) if len(known) == len(floors) else None


def _mean(visits: Visits) -> float | None:
    """The geometric mean over visits, which is what ratios are made of; None without a positive value."""
    means = [fmean(list(map(math.log, visit))) for visit in visits if visit and min(visit) > 0]
    return math.exp(fmean(means)) if means else None
