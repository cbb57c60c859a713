"""The noise floor: how far two visits of one unchanged cell lie apart.

The model is a one-way random-effects one, on logarithms, so that everything is relative:

    ln(repeat) = ln(cell) + start of the server + repeat within the run

Repeats of one visit share a start of the server, and whatever it happened to give: they say how steady one run is, not
whether the next start gives the same. Only visits say that, and the floor is made of the means of visits. A floor holds
for one host, parallelism and point: `docs/decisions/0011-when-two-cells-differ.md` says why it is not pooled over
these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ddqueue.domain.statistics import CONFIDENCE
from ddqueue.domain.student import t_quantile

Visits = Sequence[Sequence[float]]
"""The valid repeats of one cell at one point, visit by visit; every value is positive."""

FEW_STARTS = 3
"""Below so many degrees of freedom the t quantile, not the box, makes the floor: 12.7 at 1, 4.3 at 2, 3.2 at 3."""


@dataclass(frozen=True)
class Spread:
    """A variance of logarithms, with the degrees of freedom that it rests on."""

    variance: float
    freedom: float


@dataclass(frozen=True)
class NoiseFloor:
    """What repetition alone does to a cell's number on one host, with one parallelism, at one point.

    `visit` is the spread of visit means about their cell's mean: of starts and repeats together. `repeat` is the spread
    of repeats within a visit, None where every visit has one only. `per_visit` is the harmonic mean of the repeats in a
    visit. `visits` and `cells` count what it was made from.
    """

    visit: Spread
    repeat: Spread | None
    per_visit: float
    visits: int
    cells: int = 1

    @property
    def fraction(self) -> float:
        """The relative difference that two single visits of an unchanged cell exceed only 5% of the time."""
        return self.between(1, 1)

    @property
    def start(self) -> Spread | None:
        """What the starts add beyond what the repeats explain; None where the repeats explain all.

        Source: the method of moments; Satterthwaite, Biometrics Bulletin 2 (1946), for the degrees of freedom.
        """
        if self.repeat is None:
            return self.visit
        explained = self.repeat.variance / self.per_visit
        variance = self.visit.variance - explained
        if variance <= 0:
            return None
        doubt = self.visit.variance**2 / self.visit.freedom + explained**2 / self.repeat.freedom
        return Spread(variance, variance**2 / doubt)

    def between(self, a: int, b: int) -> float:
        """The same for the means over `a` and `b` visits of an unchanged cell."""
        t = t_quantile((1 + CONFIDENCE) / 2, self.visit.freedom)
        return math.expm1(t * math.sqrt(self.visit.variance * (1 / a + 1 / b)))

    @property
    def words(self) -> str:
        """`noise floor 1.3%, from 6 visits`, and a remark where more visits would lower it by themselves."""
        of = f" of {self.cells} cells" if self.cells > 1 else ""
        text = f"noise floor {percent(self.fraction)}, from {self.visits} visits{of}"
        few = self.visit.freedom < FEW_STARTS
        return f"{text}: so few that most of it is doubt about the floor itself" if few else text


NO_FLOOR = "no cell was visited twice: the noise between starts of a server is unknown, only that within a run is known"


def noise_floor(*cells: Visits) -> NoiseFloor | None:
    """The noise floor from cells that were visited more than once: the control cell, and any other.

    Each cell is centred on its own mean, so that cells of any speed can stand together; a cell with one visit adds
    nothing. None where none was visited twice, or a value is not positive.
    """
    visited_twice = [visits for cell in cells if len(visits := [visit for visit in cell if visit]) > 1]
    controls = [[list(map(math.log, visit)) for visit in visits] for visits in visited_twice if are_positive(visits)]
    if not controls:
        return None
    within = pooled_spread([visit for visits in controls for visit in visits])
    between = pooled_spread([[fmean(visit) for visit in visits] for visits in controls])
    assert between is not None
    sizes = [len(visit) for visits in controls for visit in visits]
    per_visit = len(sizes) / sum(1 / size for size in sizes)
    return NoiseFloor(between, within, per_visit, len(sizes), len(controls))


def pooled_spread(groups: Sequence[Sequence[float]]) -> Spread | None:
    """The variance within groups about their own means; None where no group has two values."""
    freedom = sum(len(group) - 1 for group in groups if group)
    if freedom < 1:
        return None
    means = [fmean(group) if group else 0.0 for group in groups]
    squares = sum((value - mean) ** 2 for group, mean in zip(groups, means, strict=True) for value in group)
    return Spread(squares / freedom, freedom)


def are_positive(cell: Visits) -> bool:
    """Whether logarithms can be taken."""
    return all(min(visit) > 0 for visit in cell if visit)


def percent(fraction: float) -> str:
    """`1.3%`, with more digits where it is small."""
    hundredths = fraction * 100
    return f"{hundredths:.1f}%" if abs(hundredths) >= 0.1 or hundredths == 0 else f"{hundredths:.2g}%"
