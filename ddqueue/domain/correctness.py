"""Whether a cell answers coding problems worse than its host's baseline, problem by problem.

Answers are decoded greedily, so in exact arithmetic a cell that only speculates, or only serves more requests at once,
gives the baseline's very answers, and any difference would be a fault. Real kernels round differently at other batch
sizes, so that a near tie may fall the other way and lead to other words. A problem lost here and there is luck; many,
or one lost every time, are not. Nothing of this is stored: the baseline may run later, and a rescore changes scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb

from ddqueue.domain.coding import Outcome

SIGNIFICANCE = 0.05
"""The share of sound cells that the paired test may call worse, at each concurrency."""

NEARLY_ALL = 0.75
"""The share of a problem's judged samples from which it counts as solved."""

TELLING_SAMPLES = 3
"""A problem that the baseline always solves and the cell does not once in so many samples is a drop by itself."""


@dataclass(frozen=True)
class CodingScores:
    """The latest scores of one job's answers to one suite at one concurrency.

    `outcomes` maps each problem to the outcomes of its samples, in the order of the samples.
    """

    suite: str
    suite_digest: str
    concurrency: int
    outcomes: Mapping[str, tuple[Outcome, ...]]

    @property
    def asked(self) -> int:
        """Answers, whatever became of them."""
        return sum(len(outcomes) for outcomes in self.outcomes.values())

    @cached_property
    def judged(self) -> int:
        """Answers that say something about the model."""
        return sum(outcome.judged for outcomes in self.outcomes.values() for outcome in outcomes)

    @cached_property
    def passed(self) -> int:
        return self.count(Outcome.PASSED)

    def count(self, wanted: Outcome) -> int:
        """Answers with that outcome."""
        return sum(outcomes.count(wanted) for outcomes in self.outcomes.values())


@dataclass(frozen=True)
class Drop:
    """A cell that passes fewer than the baseline, and not by luck.

    `lost` names the problems that the baseline solves in nearly all samples and the cell does not. `p_value` is the
    exact probability of so many lost pairs, or more, if cell and baseline were equally good.
    """

    concurrency: int
    passed: int
    judged: int
    baseline_passed: int
    baseline_judged: int
    baseline_concurrency: int
    lost: tuple[str, ...]
    p_value: float

    @property
    def words(self) -> str:
        """`coding under C=8: 11 of 20 where the baseline has 18; lost: merge_intervals, ...`"""
        where = "alone" if self.concurrency == 1 else f"under C={self.concurrency}"
        baseline = str(self.baseline_passed)
        if self.baseline_judged != self.judged:
            baseline += f" of {self.baseline_judged}"
        if self.baseline_concurrency != self.concurrency:
            baseline += f" at C={self.baseline_concurrency}"
        lost = f"; lost: {', '.join(self.lost)}" if self.lost else ""
        return f"coding {where}: {self.passed} of {self.judged} where the baseline has {baseline}{lost}"


def correctness_drop(base: CodingScores, cell: CodingScores) -> Drop | None:
    """The drop of `cell` against `base`; None when there is none, or nothing to compare.

    Two ways to drop. McNemar's exact test, one-sided, over pairs of samples: of the pairs in which exactly one of both
    passes, those in which the baseline does are binomial with 1/2 if both are equally good. And a problem that is lost
    outright: solved by every sample of the baseline and by none of at least TELLING_SAMPLES of the cell.

    Samples of one problem are the same prompt, so which are paired does not matter: the n-th with the n-th, and where
    the baseline has fewer (it was asked alone), its samples are used in turn. Samples that were not judged pair with
    nothing.
    """
    if base.suite_digest != cell.suite_digest:
        return None
    lost_pairs, gained_pairs = _discordant(base, cell)
    p_value = _at_least(lost_pairs, lost_pairs + gained_pairs)
    outright = [name for name in cell.outcomes if _lost_outright(base.outcomes.get(name, ()), cell.outcomes[name])]
    if p_value > SIGNIFICANCE and not outright:
        return None
    return Drop(
        concurrency=cell.concurrency,
        passed=cell.passed,
        judged=cell.judged,
        baseline_passed=base.passed,
        baseline_judged=base.judged,
        baseline_concurrency=base.concurrency,
        lost=tuple(name for name in cell.outcomes if _solved(base, name) and not _solved(cell, name)),
        p_value=p_value,
    )


def drops(baseline: Iterable[CodingScores], cell: Iterable[CodingScores]) -> tuple[Drop, ...]:
    """The drops of a cell at each of its concurrencies, against its host's and parallelism's baseline.

    Each is compared with the baseline at the same concurrency: load costs the baseline near ties as well. Where it has
    none, its answers alone stand in.
    """
    found = []
    known = [scores for scores in baseline if scores.judged]
    for scores in cell:
        base = baseline_for(known, scores)
        drop = None if base is None else correctness_drop(base, scores)
        if drop is not None:
            found.append(drop)
    return tuple(found)


def baseline_for(baseline: Sequence[CodingScores], cell: CodingScores) -> CodingScores | None:
    """What `cell` is compared with; None when the baseline has answered no equal suite, or only at other loads."""
    equal = {scores.concurrency: scores for scores in baseline if scores.suite_digest == cell.suite_digest}
    return equal.get(cell.concurrency) or equal.get(1)


def _discordant(base: CodingScores, cell: CodingScores) -> tuple[int, int]:
    """Pairs that only the baseline passes, and pairs that only the cell passes."""
    lost = gained = 0
    for name, outcomes in cell.outcomes.items():
        reference = base.outcomes.get(name, ())
        for sample, outcome in enumerate(outcomes if reference else ()):
            other = reference[sample % len(reference)]
            if outcome.judged and other.judged:
                passes, passed = outcome is Outcome.PASSED, other is Outcome.PASSED
                lost += passed and not passes
                gained += passes and not passed
    return lost, gained


def _at_least(successes: int, tosses: int) -> float:
    """P(X >= successes) for X ~ Binomial(tosses, 1/2); 1 for no tosses."""
    return sum(comb(tosses, k) for k in range(successes, tosses + 1)) / (1 << tosses)


def _lost_outright(base: Sequence[Outcome], cell: Sequence[Outcome]) -> bool:
    reference, judged = [one for one in base if one.judged], [one for one in cell if one.judged]
    always = bool(reference) and all(one is Outcome.PASSED for one in reference)
    return always and len(judged) >= TELLING_SAMPLES and Outcome.PASSED not in judged


def _solved(scores: CodingScores, name: str) -> bool:
    judged = [outcome for outcome in scores.outcomes.get(name, ()) if outcome.judged]
    return bool(judged) and judged.count(Outcome.PASSED) >= NEARLY_ALL * len(judged)
