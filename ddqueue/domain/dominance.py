"""When a cell may be given up early: another cell of the same host and parallelism is clearly faster at every point.

A sweep must allow it (`measure: {prune: dominated}`), for what is given up is not ranked. The rule is made so that a
cell that might win is not lost: the other one has to be ahead everywhere, by far more than starts of one server differ
and than repeats scatter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from ddqueue.domain.sweep import Point

CLEARLY = 0.10
"""The least lead at every point, as a fraction of the slower one: what luck takes from one start of the best cell does
not make another one lead by so much. A cell that is given up although it is as good as its rival loses nobody
anything."""

DEVIATIONS = 4.0
"""... and the least lead in standard deviations of the difference of both means, by the other cell's own repeats."""


@dataclass(frozen=True)
class Rival:
    """A cell that was measured whole: output throughput (tok/s) of its valid repeats, over all its visits, by point."""

    job_id: int
    label: str
    throughputs: Mapping[Point, Sequence[float]]


@dataclass(frozen=True)
class Dominated:
    """Who is better everywhere, and by what: `leads` are fractions of the given-up cell's throughput, by point."""

    rival: Rival
    leads: Mapping[Point, float]

    @property
    def words(self) -> str:
        """`b12 t6 (job 7) is faster everywhere: +18% at C=1 60, +31% at C=32 60`."""
        leads = ", ".join(f"+{lead:.0%} at {point.label}" for point, lead in self.leads.items())
        return f"{self.rival.label} (job {self.rival.job_id}) is faster everywhere: {leads}"


def dominated(seen: Mapping[Point, Sequence[float]], rivals: Sequence[Rival]) -> Dominated | None:
    """Who dominates a cell of which `seen` is known, by point; of several, the one whose least lead is largest.

    None while a point of `seen` has no value yet: a cell may be slow at one load and the best at another.
    """
    if not seen or not all(seen.values()):
        return None
    found = [
        Dominated(rival, {point: lead for point, lead in leads.items() if lead is not None})
        for rival in rivals
        if None
        not in (leads := {point: _lead(rival.throughputs.get(point, ()), seen[point]) for point in seen}).values()
    ]
    return max(found, key=lambda one: min(one.leads.values()), default=None)


def _lead(theirs: Sequence[float], ours: Sequence[float]) -> float | None:
    """By how much the rival is faster, as a fraction; None where that is not clear."""
    if len(theirs) < 2 or fmean(ours) <= 0:
        return None
    lead = fmean(theirs) / fmean(ours) - 1
    scatter = stdev(theirs) / fmean(theirs) * math.sqrt(1 / len(theirs) + 1 / len(ours))
    return lead if lead >= max(CLEARLY, DEVIATIONS * scatter) else None
