"""What is to be said of each cell: ranked, or not and why; and what to know of it all the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ddqueue.domain.depths import Depths
from ddqueue.domain.failures import Failure
from ddqueue.domain.marks import Mark
from ddqueue.domain.measurement import Invalid
from ddqueue.domain.states import JobState
from ddqueue.domain.sweep import Point, Repeats


class Unranked(StrEnum):
    """A named reason why a cell has no place in the ranking."""

    NOT_FINISHED = "NOT_FINISHED"
    """It waits, or runs."""
    CANCELLED = "CANCELLED"
    """A person ended it."""
    DOMINATED = "DOMINATED"
    """It was given up early: another configuration is clearly faster at every point."""
    FAILED = "FAILED"
    """It ended with a failure class; numbers of before are kept, and count for nothing."""
    UNSUPPORTED = "UNSUPPORTED"
    """This build or box cannot run it."""
    INVALID = "INVALID"
    """At least one point has no valid repeat."""
    TOO_FEW_REPEATS = "TOO_FEW_REPEATS"
    """At least one point has fewer valid repeats than the sweep asks for, so that its spread is not known."""
    CORRECTNESS_DROP = "CORRECTNESS_DROP"
    """It answers worse than the same host's baseline: fast and wrong is not fast."""
    OUT_OF_DISTRIBUTION = "OUT_OF_DISTRIBUTION"
    """The drafter was not trained for this block size, and it shows: it did not run, or acceptance collapses, or nobody
    can say. Where acceptance holds it is a configuration like any other, and this a caveat."""
    SIMULATED = "SIMULATED"
    """It ran on software GPUs, and the others did not."""


@dataclass(frozen=True)
class PointRecord:
    """The repeats of one point over all visits: how many count, and what was wrong with or to know of the others."""

    point: Point
    valid: int
    reasons: tuple[Invalid, ...] = ()
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class CellRecord:
    """What became of one cell on one host with one parallelism, over all its visits.

    `state` and `failure` are those of its job; of several visits, the best that was reached: one that succeeded makes
    it succeeded, and a caveat says what became of the others. `points` holds every point that the sweep asks for.
    `drop` says how its answers are worse than the baseline's, None where they are not. `depths` is there where it
    speculated and reported a histogram. `caveats` are sentences to say beside the numbers, e.g. a drift's.
    """

    state: JobState
    points: tuple[PointRecord, ...]
    failure: Failure | None = None
    evidence: str | None = None
    drop: str | None = None
    out_of_distribution: bool = False
    depths: Depths | None = None
    simulated: bool = False
    among_real: bool = False
    """Whether other cells of the same table ran on real GPUs."""
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """Ranked exactly when there is no reason against it. `words` says why not, and its caveats; empty for a ranked cell
    of which there is nothing to say. `marks` are those of its measurements, each once."""

    reasons: tuple[Unranked, ...]
    words: str
    marks: tuple[Mark, ...] = ()

    @property
    def is_ranked(self) -> bool:
        return not self.reasons


_STATES = {
    JobState.QUEUED: Unranked.NOT_FINISHED,
    JobState.RUNNING: Unranked.NOT_FINISHED,
    JobState.CANCELLED: Unranked.CANCELLED,
    JobState.FAILED: Unranked.FAILED,
    JobState.UNSUPPORTED: Unranked.UNSUPPORTED,
    JobState.PRUNED: Unranked.DOMINATED,
}


def judge(cell: CellRecord, repeats: Repeats) -> Verdict:
    """The verdict on one cell; `repeats` is the sweep's rule.

    A cell that did not succeed has that for its reason; whether what it left behind would have been valid is no
    question then.
    """
    found = _found(cell, repeats)
    caveats = [_beyond_training(cell)] if _holds_beyond_training(cell) else []
    marks = dict.fromkeys(mark for record in cell.points for mark in record.marks)
    return Verdict(tuple(found), "; ".join([*found.values(), *caveats, *cell.caveats]), tuple(marks))


def _found(cell: CellRecord, repeats: Repeats) -> dict[Unranked, str]:
    found: dict[Unranked, str] = {}
    ended = _STATES.get(cell.state)
    if ended is not None:
        found[ended] = _end(cell)
    else:
        without = [record for record in cell.points if not record.valid]
        few = [record for record in cell.points if 0 < record.valid < repeats.minimum]
        if without:
            found[Unranked.INVALID] = _invalid(without)
        if few:
            counts = ", ".join(f"{record.valid} at {record.point.label}" for record in few)
            found[Unranked.TOO_FEW_REPEATS] = f"too few valid repeats ({counts}; the sweep asks for {repeats.minimum})"
        if cell.drop is not None:
            found[Unranked.CORRECTNESS_DROP] = cell.drop
    if cell.out_of_distribution and not _holds_beyond_training(cell):
        found[Unranked.OUT_OF_DISTRIBUTION] = _beyond_training(cell)
    if cell.simulated and cell.among_real:
        found[Unranked.SIMULATED] = "ran on software GPUs, beside cells on real ones"
    return found


def _end(cell: CellRecord) -> str:
    if cell.state is JobState.PRUNED:
        return f"given up: {cell.evidence}"
    why = f": {cell.failure}" if cell.failure else ""
    return f"{cell.state}{why}"


def _invalid(records: Sequence[PointRecord]) -> str:
    return "; ".join(
        f"no valid repeat at {record.point.label} ({', '.join(record.reasons) or 'not measured'})" for record in records
    )


def _holds_beyond_training(cell: CellRecord) -> bool:
    """Whether it is known that the drafter is as good with this block size as where it was trained."""
    ran = cell.out_of_distribution and cell.state is JobState.SUCCEEDED
    return ran and cell.depths is not None and cell.depths.deepest > 0 and cell.depths.collapse is None


def _beyond_training(cell: CellRecord) -> str:
    """Which of the two happened: it crashed, or it ran and acceptance behaved so."""
    prefix = "out of distribution: "
    if cell.state in (JobState.FAILED, JobState.UNSUPPORTED):
        evidence = f" ({cell.evidence})" if cell.evidence else ""
        return f"{prefix}it did not run, {cell.failure or cell.state}{evidence}"
    if cell.state is not JobState.SUCCEEDED:
        return f"{prefix}nothing is known yet"
    if cell.depths is None:
        return f"{prefix}it ran; the server reported no acceptance by depth"
    return f"{prefix}it ran, and {cell.depths.words}"
