"""A configuration's verdict in a table: a word in its row, and what is to be said of it in a note below. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddqueue.domain.marks import Mark
from ddqueue.domain.sweep import Point
from ddqueue.domain.verdict import Unranked
from ddqueue.report.judgement import JudgedCell

MARK_WORDS: Mapping[Mark, str] = {
    Mark.THROTTLED: "a GPU slowed itself down, because of heat or a fault in its power supply",
    Mark.POWER_CAPPED: "a GPU ran at its power limit",
    Mark.CLOCK_DRIFT: "the clock of a GPU rose or fell within the window",
    Mark.UNEVEN_CLOCKS: "one GPU ran much slower than the others, which wait for it",
    Mark.NO_BENEFIT: "there is a drafter, and not one of its drafts was accepted",
    Mark.IMPORTED: "measured by hand and brought in from a file: nobody here saw how",
}
"""What each mark means, for people."""

_SAID_BY_THE_ROW = frozenset({Unranked.NOT_FINISHED, Unranked.CANCELLED})
_EVIDENCE_CHARACTERS = 200


@dataclass(frozen=True)
class VerdictNotes:
    """`words` holds `yes`, `no` or `no [2]` for each configuration, by its key; `notes` what the numbers stand for."""

    words: Mapping[tuple[str, str, str], str]
    notes: tuple[str, ...]


def verdict_notes(cells: Sequence[JudgedCell], points: Sequence[Point]) -> VerdictNotes:
    """Configurations of which the same is to be said share a note."""
    numbers: dict[str, int] = {}
    words = {}
    for cell in cells:
        text = verdict_words(cell, points)
        number = f" [{numbers.setdefault(text, len(numbers) + 1)}]" if text else ""
        words[cell.measured.key] = ("yes" if cell.verdict.is_ranked else "no") + number
    used = dict.fromkeys(mark for cell in cells for mark in cell.verdict.marks)
    legend = [f"{mark}: {MARK_WORDS[mark]}" for mark in used]
    return VerdictNotes(words, (*(f"[{number}]  {text}" for text, number in numbers.items()), *legend))


def verdict_words(cell: JudgedCell, points: Sequence[Point]) -> str:
    """`not ranked (CORRECTNESS_DROP): coding alone: 3 of 5 where the baseline has 5`, or the caveats of a ranked one.

    Empty where there is nothing to say that the row's numbers, or its state instead of them, do not say themselves.
    """
    verdict = cell.verdict
    if verdict.reasons and _SAID_BY_THE_ROW.issuperset(verdict.reasons):
        return ""
    said = [verdict.words] if verdict.words else []
    if not verdict.is_ranked:
        evidence = cell.measured.row["evidence"]
        if evidence and Unranked.OUT_OF_DISTRIBUTION not in verdict.reasons:
            said.append(_shortened(evidence))
        return f"not ranked ({', '.join(verdict.reasons)}): {'; '.join([*said, *_marks(cell, points)])}"
    caveats = [*said, *_marks(cell, points)]
    return f"ranked, but know: {'; '.join(caveats)}" if caveats else ""


def _marks(cell: JudgedCell, points: Sequence[Point]) -> list[str]:
    """`THROTTLED at C=32 60`; without a place where it was so everywhere."""
    found = []
    for mark in cell.verdict.marks:
        where = [point for point in points if any(mark in one.marks for one in cell.measured.valid_at(point))]
        places = ", ".join(point.label for point in where)
        found.append(str(mark) if len(where) == len(points) else f"{mark} at {places}")
    return found


def _shortened(text: str) -> str:
    return text if len(text) <= _EVIDENCE_CHARACTERS else f"{text[: _EVIDENCE_CHARACTERS - 3]}..."
