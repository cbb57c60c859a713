"""System throughput against the speed each user sees: what is to be had of both at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddqueue.domain.statistics import mean_interval
from ddqueue.domain.sweep import Point
from ddqueue.report.cells import Server
from ddqueue.report.html.blocks import Block, Entry, Figure, Section
from ddqueue.report.html.cell_styles import CellStyles
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.numbers import listed, rate
from ddqueue.report.html.plots.chart import Axis, Chart, Direction, Mark, Rule, Series
from ddqueue.report.html.plots.style import OTHER, Style
from ddqueue.report.judgement import JudgedCell

_LEAD = (
    "Up and to the right is better. Each line is one configuration at growing concurrency; dotted lines "
    "join what serves as many users (C). A configuration that lies below and left of another is never the one to take."
)
_FRONTIER = Style("c-front", dashed=True)
_ROOM = 1.25
"""So much more than the largest value is on an axis, for the words at the ends of the dotted lines."""


@dataclass(frozen=True)
class _Place:
    cell: JudgedCell
    point: Point
    tok_s: float
    half_width_tok_s: float | None

    @property
    def per_user_tok_s(self) -> float:
        return self.tok_s / self.point.concurrency


def pareto(data: ReportData, styles: CellStyles) -> Section | None:
    """None where no context was measured at two concurrencies."""
    contexts = [
        context
        for context in dict.fromkeys(point.context for point in data.points)
        if len({point.concurrency for point in data.points if point.context == context}) > 1
    ]
    found = [(server, context, _places(data, server, context)) for context in contexts for server in data.servers]
    found = [(server, context, places) for server, context, places in found if places]
    if not found:
        return None
    charts = tuple(_chart(data, styles, server, context, places) for server, context, places in found)
    legend = (
        *styles.legend((place.cell for _, _, places in found for place in places), line=True),
        *([Entry("not ranked", OTHER, hollow=True)] if any(chart.has_hollow_marks for chart in charts) else []),
        Entry("the best to be had, of what is ranked", _FRONTIER, line=True, mark=False),
    )
    notes = tuple(_note(data, server, context, places) for server, context, places in found)
    blocks: tuple[Block, ...] = (Figure(charts, legend, notes, columns=len(data.servers)),)
    return Section("pareto", "Throughput against per-user speed", _LEAD, blocks)


def _places(data: ReportData, server: Server, context: int) -> list[_Place]:
    places = []
    for cell in data.cells(server):
        for point in sorted(point for point in data.points if point.context == context):
            values = [value for start in cell.measured.starts_at(point) for value in start]
            if values:
                interval = mean_interval(values, repeats=data.judgement.measure.repeats)
                places.append(_Place(cell, point, sum(values) / len(values), interval.half_width if interval else None))
    return places


def _frontier(places: Sequence[_Place]) -> list[_Place]:
    """Those that no ranked other beats in both, from the slowest user on."""
    best: list[_Place] = []
    ranked = [place for place in places if place.cell.verdict.is_ranked]
    for place in sorted(ranked, key=lambda one: (-one.per_user_tok_s, -one.tok_s)):
        if not best or place.tok_s > best[-1].tok_s:
            best.append(place)
    return best[::-1]


def _chart(data: ReportData, styles: CellStyles, server: Server, context: int, places: Sequence[_Place]) -> Chart:
    series = []
    frontier = _frontier(places)
    series.append(Series("best", _FRONTIER, tuple(_mark(place) for place in frontier), line=True, without_marks=True))
    by_cell: dict[tuple[str, str, str], list[_Place]] = {}
    for place in places:
        by_cell.setdefault(place.cell.measured.key, []).append(place)
    for own in by_cell.values():
        marks = tuple(_mark(place) for place in own)
        series.append(Series(own[0].cell.name, styles.of(own[0].cell), marks, line=True))
    fastest, most = max(place.per_user_tok_s for place in places), max(place.tok_s for place in places)
    concurrencies = dict.fromkeys(place.point.concurrency for place in places)
    return Chart(
        title=f"{data.server_name(server)}, {context:,} tokens of context",
        x=Axis("speed of one user (output tokens/s)", logarithmic=True, high=_ROOM * fastest),
        y=Axis("all users (output tokens/s)", logarithmic=True, high=_ROOM * most),
        series=tuple(series),
        rules=tuple(Rule(Direction.SLOPE, float(users), f"C={users}") for users in concurrencies),
        simulated=any(place.cell.measured.is_simulated for place in places),
        height=300,
    )


def _mark(place: _Place) -> Mark:
    spread = "" if place.half_width_tok_s is None else f" ±{place.half_width_tok_s:.1f}"
    speeds = f"{rate(place.tok_s)}{spread} tok/s, {rate(place.per_user_tok_s)} a user"
    tip = f"{place.cell.name} at {place.point.label}: {speeds}"
    return Mark(place.per_user_tok_s, place.tok_s, tip, hollow=not place.cell.verdict.is_ranked)


def _note(data: ReportData, server: Server, context: int, places: Sequence[_Place]) -> str:
    frontier = [f"{place.cell.name} at C={place.point.concurrency}" for place in _frontier(places)]
    best = listed(frontier) if frontier else "nothing is ranked"
    return f"{data.server_name(server)}, {context:,} tokens: {best}"
