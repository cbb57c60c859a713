"""The results of a sweep as text: for eyes (table, markdown) and for programs (csv, json, with numbers and units)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from ddqueue.domain.statistics import mean_interval
from ddqueue.domain.sweep import Point
from ddqueue.report.coding import coding_text, drops_of
from ddqueue.report.grid import Grid, as_csv, as_markdown, as_plain, visible
from ddqueue.report.table import HostTable, host_tables, measured, point_heads
from ddqueue.report.visits import Row


class Format(StrEnum):
    """How a listing is printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"


def render(sweep: str, rows: Sequence[Row], points: Sequence[Point], form: Format, by_visit: bool = False) -> str:
    """The results of `sweep` (`name@revision`) in one of the forms; `rows` and `points` as in `host_tables`.

    CSV and JSON always hold one entry a visit.
    """
    if form is Format.CSV:
        return _csv(rows, points)
    if form is Format.JSON:
        return json.dumps(
            {"sweep": sweep, "jobs": [_job(row, rows, points) for row in rows]}, indent=2, allow_nan=False
        )
    tables = host_tables(sweep, rows, points, by_visit)
    if form is Format.MARKDOWN:
        return "\n\n".join(_said(table, "### ", "\n\n", as_markdown) for table in tables)
    return "\n\n".join(_said(table, "", "\n", as_plain) for table in tables)


def _said(table: HostTable, mark: str, gap: str, draw: Callable[[Grid], str]) -> str:
    parts = [mark + visible(table.title)]
    if table.hypothesis:
        parts.append(f"hypothesis: {visible(table.hypothesis)}")
    return gap.join([*parts, draw(table.grid), *table.notes])


def _job(row: Row, rows: Sequence[Row], points: Sequence[Point]) -> dict[str, Any]:
    return {
        "job_id": row["job_id"],
        "host": row["host"],
        "parallel": row["parallel"],
        "visit": row["visit"],
        "control": row["control"],
        "cell_hash": row["cell_hash"],
        "label": row["label"],
        "baseline": row["baseline"],
        "out_of_distribution": row["out_of_distribution"],
        "simulated": row["simulated"],
        "hypothesis": row["hypothesis"],
        "state": row["state"],
        "failure": row["failure"],
        "evidence": row["evidence"],
        "acceptance_length": row["acceptance_length"],
        "coding": row.get("coding"),
        "correctness_drops": [{**asdict(drop), "words": drop.words} for drop in drops_of(row, rows)],
        "points": [found for point in points if (found := _point(row, point)) is not None],
    }


def _point(row: Row, point: Point) -> dict[str, Any] | None:
    found = measured(row, point)
    if found is None:
        return None
    interval = mean_interval(found["values_tok_s"])
    return {
        **found,
        "low_tok_s": interval.low if interval else None,
        "high_tok_s": interval.high if interval else None,
    }


def _csv(rows: Sequence[Row], points: Sequence[Point]) -> str:
    plain = (
        "job_id",
        "host",
        "parallel",
        "visit",
        "control",
        "cell_hash",
        "label",
        "baseline",
        "out_of_distribution",
        "simulated",
        "state",
    )
    heads = [*plain, "failure"]
    for head in point_heads(points):
        heads += [f"{head} tok/s", f"{head} +-tok/s", f"{head} n"]
    lines = []
    for row in rows:
        line = [row[name] for name in (*plain, "failure")]
        for point in points:
            line += _numbers(row, point)
        coding = coding_text(row, drops_of(row, rows)) if row.get("coding") else None
        lines.append([*line, row["acceptance_length"], coding])
    return as_csv([*heads, "acceptance_length", "coding"], lines)


def _numbers(row: Row, point: Point) -> list[float | int | None]:
    found = measured(row, point)
    if found is None:
        return [None, None, None]
    interval = mean_interval(found["values_tok_s"])
    return [found["mean_tok_s"], interval.half_width if interval else None, found["n"]]
