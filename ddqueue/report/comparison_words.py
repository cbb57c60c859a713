"""What comparisons say in sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ddqueue.domain.comparison import inverse
from ddqueue.domain.noise import percent
from ddqueue.domain.statistics import Difference, Interval
from ddqueue.report.comparing import PairComparison, PointComparison
from ddqueue.report.pairs import Pair, Side

MIXED = "SIMULATED AGAINST REAL: one side ran on software GPUs; no difference here says anything about hardware"


def pair_words(compared: PairComparison) -> str:
    """`b12 t6 beats b8 t4 at C=1 4k by 4.6% ±1.1%; at C=32 60 it is within noise (floor 1.3%)`"""
    a, b = compared.pair.names
    if all(one.throughput.ratio is None for one in compared.points):
        return f"{b} against {a}: too few numbers to compare"
    verdicts = (Difference.DIFFERENT, Difference.UNCONTROLLED)
    won = [clause for verdict in verdicts for clause in _beats(compared.points, verdict, a, b)]
    rest = [*_within_noise(compared.points), *_too_few(compared.points)]
    return "; ".join([*won, *rest]) if won else f"{b} against {a}: {'; '.join(rest)}"


def acceptance_words(compared: PairComparison) -> str | None:
    """Whether one configuration accepts the same on its two sides; None where there is nothing to say."""
    agrees = compared.acceptance_agrees
    if agrees is None:
        return None
    a, b = compared.pair.names
    if agrees:
        return f"acceptance agrees between {a} and {b}"
    where = ", ".join(
        f"{one.point.label} ({one.a.acceptance_length:.2f} and {one.b.acceptance_length:.2f})"
        for one in compared.acceptance_differs
    )
    return (
        f"ALARM: acceptance differs between {a} and {b} beyond noise at {where}. It must not depend on the box or the"
        " build: suspect kernels, numerics, the chat template or the drafter's weights, and the throughputs with them"
    )


def side_notes(compared: Iterable[PairComparison]) -> list[str]:
    """What is to be known of the sides: who has no place in a ranking and why, and a control cell that moved."""
    compared = list(compared)
    notes: dict[str, None] = {}
    for one in compared:
        for side in (one.pair.a, one.pair.b):
            verdict = side.cell.verdict
            if not verdict.is_ranked:
                notes[f"{_full_name(side)} is not ranked ({', '.join(verdict.reasons)}): {verdict.words}"] = None
    moved = [one for one in compared if _is_control_of_two_sweeps(one.pair)]
    for one in moved:
        where = [point.point.label for point in one.points if point.throughput.verdict is Difference.DIFFERENT]
        if where:
            notes[
                f"the control cell itself, {one.pair.title}, differs between {' and '.join(one.pair.names)} at "
                f"{', '.join(where)}: the box may have changed, and not what is compared"
            ] = None
    return list(notes)


def _beats(points: Sequence[PointComparison], verdict: Difference, a: str, b: str) -> list[str]:
    """One clause for each side that wins anywhere."""
    clauses = []
    for winner, loser, is_b in ((b, a, True), (a, b, False)):
        won = [
            f"at {one.point.label} by {_size(one.throughput.ratio if is_b else inverse(one.throughput.ratio))}"
            + (" (it hangs on few repeats)" if one.throughput.hangs_on_few_repeats else "")
            for one in points
            if one.throughput.verdict is verdict and one.throughput.ratio and (one.throughput.ratio.mean >= 1) is is_b
        ]
        if won and verdict is Difference.UNCONTROLLED:
            runs = "these runs only: how much one start of a server differs from the next is unknown"
            clauses.append(f"{winner}'s run beats {loser}'s {', '.join(won)} ({runs})")
        elif won:
            clauses.append(f"{winner} beats {loser} {', '.join(won)}")
    return clauses


def _size(gain: Interval) -> str:
    return f"{percent(gain.mean - 1)} ±{percent(gain.half_width)}"


def _within_noise(points: Sequence[PointComparison]) -> list[str]:
    within = [one for one in points if one.throughput.verdict in (Difference.NOT_SHOWN, Difference.TOO_SMALL)]
    if not within:
        return []
    known = [one.throughput.floor for one in within if one.throughput.floor is not None]
    if len(known) < len(within):
        floor = "floor unknown"
    else:
        least, most = percent(min(known)), percent(max(known))
        floor = f"floor {least}" if least == most else f"floors {least} to {most}"
    return [f"at {_places(within)} it is within noise ({floor})"]


def _too_few(points: Sequence[PointComparison]) -> list[str]:
    few = [one for one in points if one.throughput.verdict is Difference.TOO_FEW]
    return [f"at {_places(few)} there are too few repeats to say"] if few else []


def _places(points: Sequence[PointComparison]) -> str:
    labels = [one.point.label for one in points]
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"


def _is_control_of_two_sweeps(pair: Pair) -> bool:
    controls = pair.a.cell.measured.is_control and pair.b.cell.measured.is_control
    return controls and pair.is_same_server and pair.is_same_configuration


def _full_name(side: Side) -> str:
    words = side.words
    return f"{words['label']} on {words['host']} {words['parallel']} in {words['sweep']}"
