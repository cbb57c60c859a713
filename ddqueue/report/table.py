"""The table of a sweep: one a host, one row a configuration, one column a point.

Pure: takes rows of the view `results`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddqueue.domain.pooling import FEWEST_VISITS, over_visits
from ddqueue.domain.states import JobState
from ddqueue.domain.sweep import Point
from ddqueue.report.coding import coding_text, drop_notes, drops_of
from ddqueue.report.grid import Grid
from ddqueue.report.visits import Row, pooled

NOT_MEASURED = "not measured"
ABSENT = "-"

SIMULATED_MARK = "[simulated]"
OUT_OF_DISTRIBUTION_MARK = "[out of distribution]"

_INVALID_NOTE = "*  some repeats were not valid and are left out; measurements.reasons says why"
_SIMULATED_NOTE = f"{SIMULATED_MARK}  ran on software GPUs: not a measurement of hardware"
_OUT_OF_DISTRIBUTION_NOTE = f"{OUT_OF_DISTRIBUTION_MARK}  the drafter was not trained for this block size"
_UNIT_NOTE = "C=n: output tokens/s at concurrency n and that context, mean ± half the 95% t interval over repeats"
_VISITS_NOTE = (
    "visits: starts of the server that gave numbers, of all; "
    f"from {FEWEST_VISITS} on the ± is over their means, else over all repeats, which share a start"
)


@dataclass(frozen=True)
class HostTable:
    """One host's table with what is said above it."""

    title: str
    hypothesis: str | None
    notes: tuple[str, ...]
    grid: Grid


def host_tables(sweep: str, rows: Sequence[Row], points: Sequence[Point], by_visit: bool = False) -> list[HostTable]:
    """The tables of `sweep` (`name@revision`), in the order in which its hosts first appear.

    `rows` are those of the view `results`; `points` are the columns, in order. Visits of a configuration are pooled in
    one row, or printed `by_visit` in the order given.
    """
    hosts = dict.fromkeys(row["host"] for row in rows)
    return [_host_table(sweep, host, [row for row in rows if row["host"] == host], points, by_visit) for host in hosts]


def point_heads(points: Sequence[Point]) -> list[str]:
    """`C=1 60`, ...; with the output length where two points differ in nothing else."""
    labels = [point.label for point in points]
    return [f"{point.label} out {point.output}" if labels.count(point.label) > 1 else point.label for point in points]


def measured(row: Row, point: Point) -> Mapping[str, Any] | None:
    """The row's element of `points` for one point; None where nothing was accepted."""
    for found in row["points"] or ():
        if (found["concurrency"], found["context_tokens"], found["output_tokens_asked"]) == (
            point.concurrency,
            point.context,
            point.output,
        ):
            return dict(found)
    return None


def configuration(row: Row, with_parallel: bool) -> str:
    """The configuration's name with its marks."""
    words = [row["parallel"]] if with_parallel else []
    words.append(row["label"])
    if row["out_of_distribution"]:
        words.append(OUT_OF_DISTRIBUTION_MARK)
    if row["simulated"]:
        words.append(SIMULATED_MARK)
    return " ".join(words)


def _host_table(sweep: str, host: str, visits: Sequence[Row], points: Sequence[Point], by_visit: bool) -> HostTable:
    rows = visits if by_visit else pooled(visits)
    parallels = list(dict.fromkeys(row["parallel"] for row in rows))
    heads: tuple[str, ...] = ("configuration", *point_heads(points), "accept", "coding")
    body = tuple(_cells(row, rows, points, with_parallel=len(parallels) > 1) for row in rows)
    notes = _notes(rows, body)
    if any(row["visit"] > 1 for row in visits):
        heads = (*heads, "visit" if by_visit else "visits")
        body = tuple(
            (*cells, _visit(row) if by_visit else row["visits"]) for cells, row in zip(body, rows, strict=True)
        )
        notes += [] if by_visit else [_VISITS_NOTE]
    title = f"{sweep} on {host}, {', '.join(parallels)}"
    simulated = [row["simulated"] for row in rows]
    if any(simulated):
        title += " (simulated)" if all(simulated) else " (partly simulated)"
    return HostTable(
        title=title,
        hypothesis=rows[0]["hypothesis"],
        notes=tuple(notes),
        grid=Grid(heads, body, right=frozenset(range(1, len(points) + 2))),
    )


def _cells(row: Row, rows: Sequence[Row], points: Sequence[Point], with_parallel: bool) -> tuple[str, ...]:
    name = configuration(row, with_parallel)
    if row["state"] != JobState.SUCCEEDED:
        # The state stands where the first number would: a row without numbers says at once why it has none.
        reason = f"{row['state']}: {row['failure']}" if row["failure"] else str(row["state"])
        return (name, *([reason] + [ABSENT] * (len(points) + 1))[: len(points) + 1], ABSENT)
    acceptance = row["acceptance_length"]
    return (
        name,
        *(throughput(measured(row, point)) for point in points),
        ABSENT if acceptance is None else f"{acceptance:.2f}",
        coding_text(row, drops_of(row, rows)),
    )


def _visit(row: Row) -> str:
    return f"{row['visit']} (control)" if row["control"] else str(row["visit"])


def throughput(found: Mapping[str, Any] | None) -> str:
    """`145.2 ±1.3`; a single repeat says so instead of an interval; a star where repeats were left out."""
    if found is None:
        return NOT_MEASURED
    values = found["values_tok_s"]
    if not values:
        return "invalid *"
    interval = over_visits(found.get("visits_tok_s") or [values])
    text = f"{values[0]:.1f} (n=1)" if interval is None else f"{interval.mean:.1f} ±{interval.half_width:.1f}"
    return f"{text} *" if found["n_invalid"] else text


def _notes(rows: Sequence[Row], body: Iterable[Sequence[str]]) -> list[str]:
    notes = [_UNIT_NOTE]
    if any(row["out_of_distribution"] for row in rows):
        notes.append(_OUT_OF_DISTRIBUTION_NOTE)
    if any(row["simulated"] for row in rows):
        notes.append(_SIMULATED_NOTE)
    if any(cell.endswith("*") for cells in body for cell in cells[1:-1]):
        notes.append(_INVALID_NOTE)
    return notes + drop_notes(rows)
