"""Comparisons as text for eyes, and as one JSON document for programs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ddqueue.report.comparing import PairComparison, PointComparison
from ddqueue.report.comparison_words import MIXED, acceptance_words, pair_words, side_notes
from ddqueue.report.grid import Grid, as_plain, visible, wrapped
from ddqueue.report.leaders import margin_words, noise_words
from ddqueue.report.pairs import Pair, Side
from ddqueue.report.results_document import compared, shape

NOT_MEASURED = "-"


def comparison_text(pairs: Sequence[PairComparison]) -> str:
    """A table and sentences for each pair, then the alarms and what is to be known of the sides."""
    mixed = [MIXED] if any(one.pair.mixes_simulated_and_real for one in pairs) else []
    alarms = [words for one in pairs if one.acceptance_differs and (words := acceptance_words(one))]
    notes = [*alarms, *side_notes(pairs), *mixed]
    return "\n\n".join([*mixed, *map(_pair_text, pairs), *(["\n".join(map(wrapped, notes))] if notes else [])])


def comparison_document(pairs: Sequence[PairComparison]) -> dict[str, Any]:
    """`pairs`, each with its sides `a` and `b`, `points` (ratio is b / a) and `words`; and `notes` over all."""
    return {
        "simulated_against_real": any(one.pair.mixes_simulated_and_real for one in pairs),
        "pairs": [_pair(one) for one in pairs],
        "notes": side_notes(pairs),
    }


def _pair_text(one: PairComparison) -> str:
    a, b = one.pair.names
    title = f"{visible(one.pair.title)}{_simulated(one.pair)}:  A = {visible(a)}, B = {visible(b)}".lstrip(": ")
    words = [text for text in (pair_words(one), acceptance_words(one)) if text]
    return "\n".join([title, as_plain(_grid(one)), *map(wrapped, words)])


def _simulated(pair: Pair) -> str:
    sides = [side.cell.measured.is_simulated for side in (pair.a, pair.b)]
    return " (simulated)" if all(sides) else " (SIMULATED AGAINST REAL)" if any(sides) else ""


def _grid(one: PairComparison) -> Grid:
    """Without the columns in which nothing stands."""
    rows = [_cells(point) for point in one.points]
    heads = [head for head in rows[0] if head in _ALWAYS or any(row[head] != NOT_MEASURED for row in rows)]
    right = frozenset(at for at, head in enumerate(heads) if head not in _WORDS)
    return Grid(tuple(heads), tuple(tuple(row[head] for head in heads) for row in rows), right)


_WORDS = ("point", "B against A", "noise")
_ALWAYS = ("point", "A tok/s", "B tok/s", "B against A", "noise")


def _cells(one: PointComparison) -> dict[str, str]:
    lacks_numbers = one.a.throughput_tok_s is None or one.b.throughput_tok_s is None
    return {
        "point": one.point.label,
        "A tok/s": _number(one.a.throughput_tok_s, 1),
        "B tok/s": _number(one.b.throughput_tok_s, 1),
        "B against A": margin_words(one.throughput),
        "noise": NOT_MEASURED if lacks_numbers else noise_words(one.throughput),
        "A accept": _number(one.a.acceptance_length, 2),
        "B accept": _number(one.b.acceptance_length, 2),
        "A step ms": _number(one.a.step_time_ms, 2),
        "B step ms": _number(one.b.step_time_ms, 2),
        "break-even": _number(one.break_even.acceptance, 2),
        "margin": NOT_MEASURED if (margin := one.break_even.margin) is None else f"{margin:+.2f}",
    }


def _number(value: float | None, digits: int) -> str:
    return NOT_MEASURED if value is None else f"{value:.{digits}f}"


def _pair(one: PairComparison) -> dict[str, Any]:
    a, b = one.pair.names
    return {
        "title": one.pair.title,
        "a": {"name": a, **_side(one.pair.a)},
        "b": {"name": b, **_side(one.pair.b)},
        "points": [_point(point) for point in one.points],
        "words": pair_words(one),
        "acceptance_agrees": one.acceptance_agrees,
        "acceptance_words": acceptance_words(one),
    }


def _side(side: Side) -> dict[str, Any]:
    cell = side.cell.measured
    verdict = side.cell.verdict
    return {
        "sweep": side.sweep.reference,
        "host": cell.server[0],
        "parallel": cell.server[1],
        "cell_hash": cell.row["cell_hash"],
        "label": cell.label,
        "simulated": cell.is_simulated,
        "ranked": verdict.is_ranked,
        "reasons": list(verdict.reasons),
        "marks": list(verdict.marks),
    }


def _point(one: PointComparison) -> dict[str, Any]:
    return {
        **shape(one.point),
        "a": asdict(one.a),
        "b": asdict(one.b),
        "throughput": compared(one.throughput),
        "acceptance": compared(one.acceptance) if one.acceptance else None,
        "break_even_acceptance": one.break_even.acceptance,
        "margin": one.break_even.margin,
    }
