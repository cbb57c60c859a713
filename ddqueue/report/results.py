"""The results of a sweep as text: for eyes (table, markdown) and for programs (csv, json, with numbers and units)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum

from ddqueue.domain.statistics import mean_interval
from ddqueue.domain.sweep import Point, Repeats
from ddqueue.report.coding import coding_text, drops_of
from ddqueue.report.grid import as_csv, as_markdown, as_plain, visible, wrapped
from ddqueue.report.judgement import Judgement
from ddqueue.report.point_names import point_heads
from ddqueue.report.results_document import results_document
from ddqueue.report.table import HostTable, host_tables
from ddqueue.report.verdicts import verdict_words
from ddqueue.report.visits import Row, measured


class Format(StrEnum):
    """How a listing is printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"


def render(sweep: str, judgement: Judgement, form: Format, by_visit: bool = False) -> str:
    """The results of `sweep` (`name@revision`) in one of the forms. CSV always holds one entry a visit."""
    if form is Format.CSV:
        return _csv(judgement)
    if form is Format.JSON:
        return json.dumps(results_document(sweep, judgement), indent=2, allow_nan=False)
    said = _in_markdown if form is Format.MARKDOWN else _in_plain
    return "\n\n".join(said(table) for table in host_tables(sweep, judgement, by_visit))


def _in_plain(table: HostTable) -> str:
    parts = [visible(table.title), *_hypothesis(table), as_plain(table.grid), *map(wrapped, table.notes)]
    if table.leaders is not None:
        leaders = table.leaders
        parts += ["", visible(leaders.title), as_plain(leaders.grid), *map(wrapped, leaders.notes)]
    if table.goodput is not None:
        goodput = table.goodput
        parts += ["", visible(goodput.title), as_plain(goodput.grid), wrapped(goodput.note)]
    return "\n".join(parts)


def _in_markdown(table: HostTable) -> str:
    parts = [f"### {visible(table.title)}", *_hypothesis(table), as_markdown(table.grid), _listed(table.notes)]
    if table.leaders is not None:
        leaders = table.leaders
        parts += [f"#### {visible(leaders.title)}", as_markdown(leaders.grid), _listed(leaders.notes)]
    if table.goodput is not None:
        goodput = table.goodput
        parts += [f"#### {visible(goodput.title)}", as_markdown(goodput.grid), _listed([goodput.note])]
    return "\n\n".join(part for part in parts if part)


def _hypothesis(table: HostTable) -> list[str]:
    return [f"hypothesis: {visible(table.hypothesis)}"] if table.hypothesis else []


def _listed(notes: Sequence[str]) -> str:
    return "\n".join(f"- {visible(note)}" for note in notes)


_PLAIN_COLUMNS = (
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
    "failure",
)


def _csv(judgement: Judgement) -> str:
    heads = list(_PLAIN_COLUMNS)
    for head in point_heads(judgement.points):
        heads += [f"{head} tok/s", f"{head} +-tok/s", f"{head} n"]
        heads += [f"{head} goodput requests/s", f"{head} goodput tok/s"] if judgement.measure.goodput else []
    lines = []
    for row in judgement.rows:
        line = [row[name] for name in _PLAIN_COLUMNS]
        for point in judgement.points:
            line += _numbers(row, point, judgement.measure.repeats)
            line += _goodput(row, point) if judgement.measure.goodput else []
        coding = coding_text(row, drops_of(row, judgement.baselines)) if row.get("coding") else None
        cell = judgement.cell_of(row)
        verdict = verdict_words(cell, judgement.points) or cell.verdict.words or None
        lines.append([*line, row["acceptance_length"], coding, cell.verdict.is_ranked, verdict])
    return as_csv([*heads, "acceptance_length", "coding", "ranked", "verdict"], lines)


def _numbers(row: Row, point: Point, repeats: Repeats) -> list[float | int | None]:
    found = measured(row, point)
    if found is None:
        return [None, None, None]
    interval = mean_interval(found["values_tok_s"], repeats=repeats)
    return [found["mean_tok_s"], interval.half_width if interval else None, found["n"]]


def _goodput(row: Row, point: Point) -> list[float | None]:
    found = measured(row, point) or {}
    return [found.get("goodput_requests_s"), found.get("goodput_output_tok_s")]
