"""Whether two cells differ, and by how much: their ratio with its interval, held against the noise floor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from statistics import fmean

from ddqueue.domain.noise import NoiseFloor, Spread, Visits, are_positive, noise_floor, percent, pooled_spread
from ddqueue.domain.statistics import (
    CONFIDENCE,
    SIGNIFICANCE,
    Comparison,
    Difference,
    Interval,
    compare,
)
from ddqueue.domain.student import t_quantile, t_two_sided

_DIFFER = (Difference.DIFFERENT, Difference.UNCONTROLLED)


@dataclass(frozen=True)
class CellComparison:
    """Cell b against cell a at one point of one host.

    `estimate` is None where no interval can be made. `p_value` is two-sided. `floor` is the relative difference that an
    unchanged cell reaches over as many visits as these, None where no cell was visited twice; the interval then knows
    only the spread within runs. `ranks` is None where nothing is said to differ.
    """

    verdict: Difference
    estimate: Estimate | None
    p_value: float | None
    floor: float | None
    ranks: Ranks | None

    @property
    def ratio(self) -> Interval | None:
        """b / a: geometric means over visits, with the 95% interval."""
        return self.estimate.ratio if self.estimate else None

    @property
    def is_beyond_noise(self) -> bool | None:
        """True only where the cells differ; None where that cannot be said."""
        if self.verdict in (Difference.UNCONTROLLED, Difference.TOO_FEW):
            return None
        return self.verdict is Difference.DIFFERENT

    @property
    def hangs_on_few_repeats(self) -> bool:
        """Whether the rank test, although it could, does not agree that they differ."""
        ranked = self.ranks.test if self.ranks else None
        return ranked is not None and ranked.verdict is Difference.NOT_SHOWN

    def words(self, a: str, b: str, where: str) -> str:
        """What a person reads, for numbers of which more is better: `where` is e.g. `C=1 4k`.

        `b12 t6 beats b8 t4 at C=1 4k by 4.6% ±1.1%`
        """
        if self.ratio is None:
            return f"{b} against {a} at {where}: too few repeats to say"
        floor = "no noise floor" if self.floor is None else f"floor {percent(self.floor)}"
        better, worse, gain = (b, a, self.ratio) if self.ratio.mean >= 1 else (a, b, inverse(self.ratio))
        size = f"{percent(gain.mean - 1)} ±{percent(gain.half_width)}"
        signed = f"{'+' if self.ratio.mean >= 1 else '-'}{percent(abs(self.ratio.mean - 1))}"
        doubt = "; it hangs on few repeats" if self.hangs_on_few_repeats else ""
        match self.verdict:
            case Difference.DIFFERENT:
                return f"{better} beats {worse} at {where} by {size}{doubt}"
            case Difference.UNCONTROLLED:
                unknown = "no cell was visited twice, so another start of the same server might too"
                return f"{better}'s run beats {worse}'s at {where} by {size}{doubt}; {unknown}"
            case Difference.TOO_FEW:
                seen = f"{signed} ±{percent(gain.half_width)}, {floor}"
                return f"{b} against {a} at {where}: too few repeats to say ({seen})"
            case Difference.NOT_SHOWN | Difference.TOO_SMALL:
                return f"{b} against {a} at {where}: within noise ({signed}, {floor})"


def compare_cells(a: Visits, b: Visits, floor: NoiseFloor | None, significance: float = SIGNIFICANCE) -> CellComparison:
    """Whether b differs from a: significantly, *and* by more than an unchanged cell does between visits.

    The difference of the logarithms has the variance of its repeats (each cell's own, for a drafter may make a cell
    less steady than the control) plus that of the starts, which the floor knows; t, with Satterthwaite's degrees of
    freedom. Where the floor is None and a cell was itself visited twice, the cells make the floor.

    `floor` is that of the same host, parallelism and point. Source: Satterthwaite, Biometrics Bulletin 2 (1946).
    """
    if not (any(a) and any(b) and are_positive(a) and are_positive(b)):
        return CellComparison(Difference.TOO_FEW, None, None, None, None)
    floor = floor or noise_floor(a, b)
    logs = [[list(map(math.log, visit)) for visit in cell if visit] for cell in (a, b)]
    below, above = (fmean(list(map(fmean, cell))) for cell in logs)
    difference = above - below
    least = floor.between(len(logs[0]), len(logs[1])) if floor else None
    error = _standard_error(logs, floor)
    if error is None:
        return CellComparison(Difference.TOO_FEW, None, None, least, None)
    estimate = Estimate(difference, error, n=sum(len(visit) for cell in logs for visit in cell))
    p_value = error.p_value(difference)
    verdict = _verdict(p_value <= significance, abs(difference), least)
    # Only where the repeats are said to differ can the ranks disagree.
    ranks = Ranks(a, b, least or 0.0, significance) if verdict in _DIFFER else None
    return CellComparison(verdict, estimate, p_value, least, ranks)


def inverse(ratio: Interval) -> Interval:
    """The same ratio seen from the other cell."""
    return Interval(1 / ratio.mean, 1 / ratio.high, 1 / ratio.low, ratio.n)


def _verdict(is_significant: bool, log_difference: float, least: float | None) -> Difference:
    if least is None:
        return Difference.UNCONTROLLED if is_significant else Difference.NOT_SHOWN
    is_beyond_floor = log_difference > math.log1p(least)
    if is_significant:
        return Difference.DIFFERENT if is_beyond_floor else Difference.TOO_SMALL
    # Larger than the box's noise, and not shown: the repeats are what is missing.
    return Difference.TOO_FEW if is_beyond_floor else Difference.NOT_SHOWN


@dataclass(frozen=True)
class Estimate:
    """The difference of the logarithms of two cells, with its error, from `n` values."""

    difference: float
    error: StandardError
    n: int

    @cached_property
    def ratio(self) -> Interval:
        """Worked out when it is asked for: of most comparisons only the verdict is told, and the quantile of t that an
        interval needs takes six times as long as the p-value that the verdict needs."""
        half, middle = self.error.times_t(), self.difference
        return Interval(math.exp(middle), math.exp(middle - half), math.exp(middle + half), self.n)


@dataclass(frozen=True)
class Ranks:
    """The repeats of two cells, for Mann and Whitney's test: it does not see starts, but no single repeat can decide
    it."""

    a: Visits
    b: Visits
    threshold: float
    significance: float

    @cached_property
    def test(self) -> Comparison | None:
        """Worked out when it is asked for, like a ratio."""
        return compare(list(chain(*self.a)), list(chain(*self.b)), self.threshold, self.significance)


@dataclass(frozen=True)
class StandardError:
    """The variance of a difference, as a sum of variances that are each known from a spread.

    `least_freedom` is the smallest number of degrees of freedom among the spreads that were measured. Satterthwaite's
    sum never lies below it, but for the starts: theirs is a difference of two spreads, and where it is small the
    formula would throw away what the others know.
    """

    parts: tuple[Spread, ...]
    least_freedom: float

    @cached_property
    def size(self) -> float:
        return math.sqrt(sum(part.variance for part in self.parts))

    @cached_property
    def freedom(self) -> float:
        doubt = sum(part.variance**2 / part.freedom for part in self.parts)
        return max(self.least_freedom, self.size**4 / doubt) if doubt else self.least_freedom

    def times_t(self) -> float:
        return t_quantile((1 + CONFIDENCE) / 2, self.freedom) * self.size if self.size else 0.0

    def p_value(self, difference: float) -> float:
        if not self.size:
            return 1.0 if difference == 0 else 0.0
        return t_two_sided(difference / self.size, self.freedom)


def _standard_error(logs: Sequence[Sequence[Sequence[float]]], floor: NoiseFloor | None) -> StandardError | None:
    """None where nothing says how far repeats of one of the cells lie apart."""
    starts = sum(1 / len(cell) for cell in logs)
    borrowed = floor.repeat if floor else None
    parts = []
    for cell in logs:
        spread = pooled_spread(cell) or borrowed
        if spread is None:
            # One repeat a visit everywhere: the visits' own spread holds starts and repeats together.
            return _by_visits(floor.visit, starts) if floor else None
        share = sum(1 / len(visit) for visit in cell) / len(cell) ** 2
        parts.append(Spread(spread.variance * share, spread.freedom))
    least_freedom = min(part.freedom for part in parts)
    if floor is not None and floor.start is not None:
        parts.append(Spread(floor.start.variance * starts, floor.start.freedom))
        least_freedom = min(least_freedom, floor.visit.freedom)
    return StandardError(tuple(parts), least_freedom)


def _by_visits(visit: Spread, starts: float) -> StandardError:
    return StandardError((Spread(visit.variance * starts, visit.freedom),), visit.freedom)
