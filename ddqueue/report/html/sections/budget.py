"""Throughput against the size of the tree, with intervals: one plot a point, the hosts beside each other."""

from __future__ import annotations

from dataclasses import dataclass

from ddqueue.domain.pooling import over_visits
from ddqueue.domain.statistics import Interval
from ddqueue.domain.sweep import Point
from ddqueue.report.cells import Server
from ddqueue.report.html.blocks import Entry, Figure, Section
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.plots.chart import Axis, Chart, Direction, Mark, Rule, Series, Tick
from ddqueue.report.html.plots.style import COLOURS, OTHER, Style, shape
from ddqueue.report.judgement import JudgedCell

_LEAD = (
    "A larger tree is right for longer and costs more to verify. Bars are 95% intervals; a dashed line is the same box "
    "without speculation: below it a tree does harm."
)
_APART_PX = 5.0


@dataclass(frozen=True)
class _Family:
    """Cells that share block size and draft window, so that a line through their budgets means something."""

    block_size: int
    window: int | None

    @property
    def name(self) -> str:
        window = "no window" if self.window is None else f"window {self.window}"
        return f"block {self.block_size}, {window}"


_Lines = dict[tuple[Server, _Family], list[JudgedCell]]
"""The cells of each server and family, by budget: gathered once for all points."""


def budget(data: ReportData) -> Section | None:
    """None where no two trees differ in size."""
    trees = [cell for cell in data.judgement.cells if cell.measured.row["budget"] is not None and cell.measured.repeats]
    if len({cell.measured.row["budget"] for cell in trees}) < 2:
        return None
    families = list(dict.fromkeys(_family(cell) for cell in trees))
    lines: _Lines = {}
    for cell in sorted(trees, key=lambda cell: cell.measured.row["budget"]):
        lines.setdefault((cell.measured.server, _family(cell)), []).append(cell)
    charts = tuple(chart for point in data.points if (chart := _chart(data, families, lines, point)).series)
    legend = [
        Entry(f"{data.server_name(server)}, {family.name}", _style(data, server, number), line=True)
        for server in data.servers
        for number, family in enumerate(families)
        if (server, family) in lines
    ]
    legend += [
        Entry(
            f"{data.server_name(server)} without speculation",
            Style(_colour(data, server), dashed=True),
            line=True,
            mark=False,
        )
        for server in data.servers
        if data.baseline(server) is not None
    ]
    if any(chart.has_hollow_marks for chart in charts):
        legend.append(Entry("not ranked", OTHER, hollow=True))
    return Section("budget", "Throughput against tree budget", _LEAD, (Figure(charts, tuple(legend)),))


def _family(cell: JudgedCell) -> _Family:
    return _Family(cell.measured.row["block_size"], cell.measured.row["draft_window"])


def _colour(data: ReportData, server: Server) -> str:
    return f"c{data.servers.index(server) % COLOURS}"


def _style(data: ReportData, server: Server, family: int) -> Style:
    return Style(_colour(data, server), shape(family))


def _chart(data: ReportData, families: list[_Family], lines: _Lines, point: Point) -> Chart:
    series, rules = [], []
    for server in data.servers:
        for number, family in enumerate(families):
            own = lines.get((server, family), ())
            shift_px = (number - (len(families) - 1) / 2) * _APART_PX
            marks = tuple(mark for cell in own if (mark := _mark(data, cell, point, shift_px)) is not None)
            if marks:
                name = f"{data.server_name(server)}, {family.name}"
                series.append(Series(name, _style(data, server, number), marks, line=True))
        baseline = data.baseline(server)
        interval = None if baseline is None else _interval(data, baseline, point)
        if interval is not None:
            rules.append(Rule(Direction.ACROSS, interval.mean, style=Style(f"dashed {_colour(data, server)}")))
    trees = [cell for own in lines.values() for cell in own]
    budgets = tuple(Tick(size, str(size)) for size in sorted({cell.measured.row["budget"] for cell in trees}))
    return Chart(
        title=f"{data.heads[point]}, {point.output} tokens out",
        x=Axis("tree budget (nodes)", ticks=budgets),
        y=Axis("all users (output tokens/s)"),
        series=tuple(series),
        rules=tuple(rules),
        simulated=any(cell.measured.is_simulated for cell in trees),
    )


def _interval(data: ReportData, cell: JudgedCell, point: Point) -> Interval | None:
    """With one repeat there is a value and no interval: its bounds are the value."""
    starts = cell.measured.starts_at(point)
    interval = over_visits(starts, data.judgement.measure.repeats)
    values = [value for start in starts for value in start]
    return interval or (Interval(values[0], values[0], values[0], 1) if values else None)


def _mark(data: ReportData, cell: JudgedCell, point: Point, shift_px: float) -> Mark | None:
    interval = _interval(data, cell, point)
    if interval is None:
        return None
    tip = f"{data.server_name(cell.measured.server)}, {cell.name}: {interval.mean:.1f} ±{interval.half_width:.1f} tok/s"
    # A t interval of few values may reach below zero; a throughput does not.
    bounds = (max(0.0, interval.low), interval.high) if interval.n > 1 else None
    hollow = not cell.verdict.is_ranked
    return Mark(cell.measured.row["budget"], interval.mean, tip, y_bounds=bounds, hollow=hollow, shift_px=shift_px)
