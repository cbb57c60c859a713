"""Goodput for eyes: what of each configuration's throughput reached users within the limits of the sweep. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ddqueue.domain.states import JobState
from ddqueue.report.grid import Grid
from ddqueue.report.judgement import Judgement
from ddqueue.report.point_names import point_heads
from ddqueue.report.visits import Row, measured

ABSENT = "-"

NOTE = (
    "requests/s that kept every limit, and of the output tokens/s the share that came with them; mean over visits, and "
    "0 where every request was too slow. The ranking above is by throughput: it does not ask for limits"
)


@dataclass(frozen=True)
class Goodput:
    """One host's table: a row a configuration with numbers, a column a point."""

    title: str
    grid: Grid
    note: str = NOTE


def goodput_of(judgement: Judgement, host: str) -> Goodput | None:
    """None where the sweep sets no limits, or nothing has been measured against them yet."""
    limits = judgement.measure.goodput
    cells = [cell for cell in judgement.cells if cell.measured.server[0] == host]
    rows = [(cell.name, cell.measured.row) for cell in cells if cell.measured.row["state"] == JobState.SUCCEEDED]
    if limits is None or not rows:
        return None
    body = tuple((name, *_cells(row, judgement)) for name, row in rows)
    heads = ("configuration", *point_heads(judgement.points))
    return Goodput(
        title=f"goodput on {host}: {limits.words}",
        grid=Grid(heads, body, right=frozenset(range(1, len(heads)))),
    )


def _cells(row: Row, judgement: Judgement) -> tuple[str, ...]:
    return tuple(_text(measured(row, point)) for point in judgement.points)


def _text(found: Mapping[str, Any] | None) -> str:
    """`3.21/s (84%)`"""
    requests_s = found.get("goodput_requests_s") if found else None
    if found is None or requests_s is None:
        return ABSENT
    output_tok_s = found.get("goodput_output_tok_s")
    if output_tok_s is None or not found["mean_tok_s"]:
        return f"{requests_s:.2f}/s"
    return f"{requests_s:.2f}/s ({output_tok_s / found['mean_tok_s']:.0%})"
