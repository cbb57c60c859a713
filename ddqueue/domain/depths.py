"""How far down a drafter is any good: acceptance by depth, and the depth at which it collapses.

A drafter that runs with a larger block than it was trained for proposes tokens at depths that it never learned. What
becomes of it stands in the histogram of accepted drafts: up to its trained depth it accepts as ever, and then stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, median

from ddqueue.domain.metrics.draft_histogram import acceptance_by_depth
from ddqueue.domain.statistics import CONFIDENCE

COLLAPSE_SHARE = 0.5
"""Acceptance below so much of what it should be is a collapse, not a slope: a trained drafter's falls gently."""


@dataclass(frozen=True)
class Depths:
    """Acceptance by depth of one cell, and what is to be said of it.

    `accepted[i]` is P(draft at depth i + 1 accepted | the one above it was), None where no verify got that far, and
    `reached[i]` counts the verifies that did. `collapse` is the first depth whose acceptance lies below `share` of
    `expected[i]`, by more than sampling explains; None where there is none.
    """

    accepted: tuple[float | None, ...]
    reached: tuple[int, ...]
    expected: tuple[float, ...]
    share: float
    collapse: int | None

    @property
    def deepest(self) -> int:
        """The deepest depth at which any draft was tried; 0 where none was."""
        return sum(count > 0 for count in self.reached)

    @property
    def words(self) -> str:
        """`acceptance collapses at depth 8: 0.04 of 1204 drafts there were accepted, where 0.81 was to be expected`"""
        if not self.deepest:
            return "no draft was ever tried"
        if self.collapse is None:
            return f"acceptance holds down to depth {self.deepest}, the deepest that was reached"
        at = self.collapse - 1
        seen = f"{self.accepted[at]:.2f} of {self.reached[at]} drafts there were accepted"
        return (
            f"acceptance collapses at depth {self.collapse}: {seen}, where {self.expected[at]:.2f} was to be expected"
        )


def depths(histogram: Sequence[int], reference: Sequence[int] | None = None, share: float = COLLAPSE_SHARE) -> Depths:
    """Acceptance by depth from a cell's histogram, whose entry k counts the verifies that accepted exactly k drafts.

    `reference` is the histogram of a cell with the same drafter and a block of the trained size: what is expected at
    each of its depths is its acceptance there, and below its last the median of all its depths, for it says nothing
    nearer. Without one each depth is held against the cell's own depths above it: less telling, because a drafter that
    is bad from the first depth on is then its own measure.

    A depth is judged by the upper bound of Wilson's 95% interval, so that the few verifies that reach deep do not make
    a collapse. A tree with a small budget may have no node at a depth: that looks the same from here, and means the
    same for speed. Source: Wilson, JASA 22 (1927).
    """
    accepted = acceptance_by_depth(histogram)
    reached = tuple(sum(histogram[depth:]) for depth in range(len(accepted)))
    expected = (
        _by_depths_above(accepted, reached)
        if reference is None
        else _by_reference(accepted, acceptance_by_depth(reference))
    )
    collapse = next(
        (
            depth
            for depth, (rate, count, usual) in enumerate(zip(accepted, reached, expected, strict=True), start=1)
            if rate is not None and _upper_bound(rate, count) < share * usual
        ),
        None,
    )
    return Depths(accepted, reached, expected, share, collapse)


def _by_reference(accepted: Sequence[float | None], reference: Sequence[float | None]) -> tuple[float, ...]:
    known = [rate for rate in reference if rate is not None]
    plateau = median(known) if known else 0.0
    there = [*reference, *[None] * len(accepted)][: len(accepted)]
    return tuple(plateau if rate is None else rate for rate in there)


def _by_depths_above(accepted: Sequence[float | None], reached: Sequence[int]) -> tuple[float, ...]:
    """For each depth: of all drafts tried above it, the share that was accepted; the first is its own measure."""
    expected = [accepted[0] or 0.0] if accepted else []
    for depth in range(1, len(accepted)):
        tried = sum(reached[:depth])
        expected.append(sum(reached[1 : depth + 1]) / tried if tried else 0.0)
    return tuple(expected)


def _upper_bound(rate: float, count: int) -> float:
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    centre = rate + z**2 / (2 * count)
    return (centre + z * sqrt(rate * (1 - rate) / count + z**2 / (4 * count**2))) / (1 + z**2 / count)
