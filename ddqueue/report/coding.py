"""What the coding column says, from the element `coding` of rows of the view `results`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ddqueue.domain.coding import Outcome
from ddqueue.domain.correctness import CodingScores, Drop, drops
from ddqueue.domain.states import JobState

Row = Mapping[str, Any]

Baselines = Mapping[tuple[str, str], Sequence[CodingScores]]
"""What each server's baseline answers, by host and parallelism."""

NOT_ASKED_FOR = "-"
NOT_MEASURED = "not measured"
BY_HAND = "(by hand)"
DROP_MARK = "*"


def scores_of(row: Row) -> list[CodingScores]:
    """The row's scores, one for each concurrency; none where nothing was accepted."""
    return [
        CodingScores(
            suite=found["suite"],
            suite_digest=found["suite_digest"],
            concurrency=found["concurrency"],
            outcomes={problem: _read(tuple(texts)) for problem, texts in found["outcomes"].items()},
        )
        for found in row.get("coding") or ()
    ]


def baseline_scores(rows: Iterable[Row]) -> Baselines:
    """The scores of each server's baseline among `rows`, over all its accepted visits."""
    measured: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["baseline"] and row["state"] == JobState.SUCCEEDED:
            measured.setdefault((row["host"], row["parallel"]), []).append(row)
    return {server: scores_of({"coding": pooled_coding(own)}) for server, own in measured.items()}


def drops_of(row: Row, baselines: Baselines) -> tuple[Drop, ...]:
    """Where the row's cell answers worse than the baseline of its host and parallelism.

    A baseline is never compared with itself.
    """
    if row["baseline"]:
        return ()
    return drops(baselines.get((row["host"], row["parallel"]), ()), scores_of(row))


def coding_text(row: Row, found: Sequence[Drop] = ()) -> str:
    """`5/5 · 18/20 at C=8`; a star where answers are worse than the baseline's."""
    if row.get("imported_coding"):
        return f"{row['imported_coding']} {BY_HAND}"
    if not row.get("coding_asked"):
        return NOT_ASKED_FOR
    parts = [_part(scores) for scores in scores_of(row)]
    if not parts:
        return NOT_MEASURED
    return " · ".join(parts) + (f" {DROP_MARK}" if found else "")


def pooled_coding(rows: Sequence[Row]) -> list[dict[str, Any]] | None:
    """The elements of several visits of one configuration as one for each suite and concurrency: each problem's samples
    one visit after the other."""
    pooled: dict[tuple[str, int], dict[str, Any]] = {}
    for found in (one for row in rows for one in row.get("coding") or ()):
        key = (found["suite_digest"], found["concurrency"])
        known = pooled.setdefault(key, {"outcomes": {}})
        outcomes = known["outcomes"]
        merged = {name: [*outcomes.get(name, ()), *found["outcomes"][name]] for name in found["outcomes"]}
        counts = {name: known.get(name, 0) + value for name, value in found.items() if name in _COUNTS}
        pooled[key] = {**found, **counts, "outcomes": outcomes | merged}
    return list(pooled.values()) or None


_COUNTS = frozenset({"asked", "judged", "passed", "no_answer", "no_code", "not_asked", "not_graded"})


@lru_cache(maxsize=1024)  # thousands of rows have the same few outcomes
def _read(texts: tuple[str, ...]) -> tuple[Outcome, ...]:
    return tuple(map(Outcome, texts))


def _part(scores: CodingScores) -> str:
    text = f"{scores.passed}/{scores.judged}" if scores.judged else "not judged"
    unjudged = scores.asked - scores.judged
    if scores.judged and unjudged:
        text += f" ({unjudged} not judged)"
    return text if scores.concurrency == 1 else f"{text} at C={scores.concurrency}"
