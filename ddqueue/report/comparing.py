"""Pairs of configurations compared at every point that both were measured at. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ddqueue.domain.comparison import CellComparison, compare_cells
from ddqueue.domain.metrics.break_even import break_even_acceptance, margin
from ddqueue.domain.noise import NoiseFloor, Visits
from ddqueue.domain.ranking import wider
from ddqueue.domain.statistics import SIGNIFICANCE, Difference
from ddqueue.domain.sweep import Point
from ddqueue.errors import UsageError
from ddqueue.report.cells import acceptance_length
from ddqueue.report.pairs import Pair, Side


@dataclass(frozen=True)
class Numbers:
    """One side at one point: geometric mean over starts in output tok/s, tokens per verify, milliseconds a step."""

    throughput_tok_s: float | None
    acceptance_length: float | None
    step_time_ms: float | None


@dataclass(frozen=True)
class BreakEven:
    """Whether b pays against a at one point: `accepted` is b's tokens per verify, `acceptance` how many would make it
    as fast as a, None where a speculates as well, and `margin` what b accepts beyond that."""

    point: Point
    accepted: float | None
    acceptance: float | None

    @property
    def margin(self) -> float | None:
        return margin(self.accepted, self.acceptance)


@dataclass(frozen=True)
class PointComparison:
    """`throughput` is b against a. `acceptance` too, and only where both sides are the same configuration, which must
    accept the same wherever it runs; None where it reports no acceptance."""

    point: Point
    a: Numbers
    b: Numbers
    throughput: CellComparison
    acceptance: CellComparison | None
    break_even: BreakEven


@dataclass(frozen=True)
class PairComparison:
    """One pair, at every point that both sides ask for."""

    pair: Pair
    points: tuple[PointComparison, ...]

    @property
    def acceptance_differs(self) -> list[PointComparison]:
        """Where one configuration accepts otherwise on its two sides, by more than chance."""
        return [one for one in self.points if one.acceptance is not None and _is_alarming(one.acceptance)]

    @property
    def acceptance_agrees(self) -> bool | None:
        """None where there is nothing to say: two configurations, no speculation, or too few repeats everywhere."""
        known = [one.acceptance for one in self.points if one.acceptance is not None]
        if all(one.verdict is Difference.TOO_FEW for one in known):
            return None
        return not self.acceptance_differs


def compare_pairs(pairs: Sequence[Pair], allow_simulated_against_real: bool = False) -> list[PairComparison]:
    """Every pair at the points that its sides share.

    Raises:
        UsageError: two sides share no point, or a simulated one is held against a real one and that is not allowed.
    """
    for pair in pairs:
        if not pair.points:
            texts = (", ".join(point.label for point in side.points) for side in (pair.a, pair.b))
            raise UsageError(f"{pair.names[0]} and {pair.names[1]} have no point in common: {' against '.join(texts)}")
        if pair.mixes_simulated_and_real and not allow_simulated_against_real:
            simulated, real = pair.names if pair.a.cell.measured.is_simulated else reversed(pair.names)
            raise UsageError(
                f"{simulated} is simulated and {real} is not: to compare them says nothing about hardware; "
                "to see it all the same, add --simulated-against-real"
            )
    # An alarm is raised for any one test, so that all of them together keep to what a single one may call different.
    tests = sum(len(pair.points) for pair in pairs if pair.is_same_configuration)
    significance = SIGNIFICANCE / max(1, tests)
    return [PairComparison(pair, tuple(_at(pair, point, significance) for point in pair.points)) for pair in pairs]


def break_even_at(pair: Pair, point: Point) -> BreakEven:
    """What it takes for b to pay, without any comparison of throughputs."""
    a, b = (side.cell.measured for side in (pair.a, pair.b))
    is_against_baseline = a.row["baseline"] and not b.row["baseline"]
    needed = break_even_acceptance(b.step_time_at(point), a.step_time_at(point)) if is_against_baseline else None
    return BreakEven(point, b.acceptance_at(point), needed)


def _at(pair: Pair, point: Point, alarm_significance: float) -> PointComparison:
    a, b = (side.cell.measured for side in (pair.a, pair.b))
    return PointComparison(
        point=point,
        a=_numbers(pair.a, point),
        b=_numbers(pair.b, point),
        throughput=compare_cells(a.starts_at(point), b.starts_at(point), _floor(pair, point)),
        acceptance=_acceptance(pair, point, alarm_significance),
        break_even=break_even_at(pair, point),
    )


def _floor(pair: Pair, point: Point) -> NoiseFloor | None:
    """On one server a floor that either sweep knows holds for both; on two servers each needs its own."""
    floors = [side.sweep.judgement.floor(side.cell.measured.server, point) for side in (pair.a, pair.b)]
    if pair.is_same_server:
        floors = [floor for floor in floors if floor is not None] or [None]
    return wider(floors)


def _acceptance(pair: Pair, point: Point, significance: float) -> CellComparison | None:
    here, there = (side.cell.measured.starts_at(point, acceptance_length) for side in (pair.a, pair.b))
    if not pair.is_same_configuration or not here or not there:
        return None
    sides = (pair.a, pair.b)
    floors = [side.sweep.judgement.acceptance_floors.get((side.cell.measured.server, point)) for side in sides]
    return compare_cells(here, there, wider(floors), significance)


def _is_alarming(acceptance: CellComparison) -> bool:
    """A floor is no condition here: which drafts are right hangs on the prompts, which every repeat has anew, and not
    on what a start of the server happened to give."""
    return acceptance.verdict in (Difference.DIFFERENT, Difference.UNCONTROLLED)


def _numbers(side: Side, point: Point) -> Numbers:
    cell = side.cell.measured
    return Numbers(_geometric_mean(cell.starts_at(point)), cell.acceptance_at(point), cell.step_time_at(point))


def _geometric_mean(visits: Visits) -> float | None:
    """Over starts, which is what ratios are made of."""
    means = [fmean(list(map(math.log, visit))) for visit in visits if visit]
    return math.exp(fmean(means)) if means else None
