"""How much the box itself moves: visits of cells that did not change, over the sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from ddqueue.domain.drift import levels
from ddqueue.domain.noise import percent
from ddqueue.domain.sweep import Point
from ddqueue.report.cells import MeasuredCell, Server
from ddqueue.report.html.blocks import Block, Entry, Figure, Items, Section, Table, Tone, Words
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.numbers import ABSENT
from ddqueue.report.html.plots.chart import Axis, Chart, Direction, Mark, Rule, Series
from ddqueue.report.html.plots.style import Style, style
from ddqueue.report.noise_notes import noise_notes

_LEAD = (
    "The control cell is started and measured again through the sweep. What its numbers differ by is the box, not the "
    "configuration: smaller differences between configurations mean nothing."
)
_LEVEL = Style("c-base")


def noise(data: ReportData) -> Section:
    """Says in a line that nothing is known where no cell was visited twice."""
    if not data.judgement.floors:
        notes = [f"{host}: {note}" for host in data.judgement.hosts for note in noise_notes(data.judgement, host)]
        advice = "Add `control: {cell: baseline, every: 5}` under `measure:` to know it."
        return Section("noise", "Noise and drift", _LEAD, (Items(tuple(notes), Tone.DOUBT), Words(advice)))
    blocks: list[Block] = []
    controls = [cell.measured for cell in data.judgement.cells if cell.measured.is_control]
    charts = tuple(chart for cell in controls if (chart := _chart(data, cell)) is not None)
    if charts:
        legend = [Entry("mean of all points", _LEVEL, line=True)]
        legend += [Entry(data.heads[point], _of(number), line=True) for number, point in enumerate(data.points)]
        blocks.append(Figure(charts, tuple(legend), columns=len(charts)))
    notes = [f"{host}: {note}" for host in data.judgement.hosts for note in noise_notes(data.judgement, host)]
    blocks.append(Items(tuple(notes)))
    blocks.append(_floors(data))
    return Section("noise", "Noise and drift", _LEAD, tuple(blocks))


@dataclass(frozen=True)
class _Visit:
    began: datetime
    means_tok_s: Mapping[Point, float]


def _visits(cell: MeasuredCell, points: tuple[Point, ...]) -> list[_Visit]:
    """The starts that measured every point, in the order begun."""
    starts = dict.fromkeys(repeat.start for repeat in cell.repeats if repeat.valid)
    visits = []
    for start in starts:
        own = [one for one in cell.repeats if one.start == start and one.valid and one.throughput_tok_s is not None]
        found = {
            point: fmean(one.throughput_tok_s for one in own if one.point == point and one.throughput_tok_s)
            for point in points
            if any(one.point == point for one in own)
        }
        began = [one.started_at for one in own if one.started_at is not None]
        if began and len(found) == len(points):
            visits.append(_Visit(min(began), found))
    return sorted(visits, key=lambda visit: visit.began)


def _chart(data: ReportData, cell: MeasuredCell) -> Chart | None:
    visits = _visits(cell, data.points)
    if len(visits) < 2:
        return None
    minutes = [(visit.began - visits[0].began).total_seconds() / 60 for visit in visits]
    hours = minutes[-1] > 180
    at = [minute / 60 for minute in minutes] if hours else minutes
    series = []
    for number, point in enumerate(data.points):
        own = levels([[visit.means_tok_s[point] for visit in visits]])
        series.append(_series(data.heads[point], _of(number), at, own))
    overall = levels([[visit.means_tok_s[point] for visit in visits] for point in data.points])
    series.append(_series("mean of all points", _LEVEL, at, overall))
    return Chart(
        title=f"{data.server_name(cell.server)}: {cell.label}",
        x=Axis(f"since its first start ({'hours' if hours else 'minutes'})", low=0.0),
        y=Axis("against its own mean (%)"),
        series=tuple(series),
        rules=(Rule(Direction.ACROSS, 0.0),),
        simulated=cell.is_simulated,
    )


def _of(number: int) -> Style:
    found = style(number)
    return Style(found.colour, found.shape, faint=True)


def _series(name: str, look: Style, at: list[float], found: list[float]) -> Series:
    marks = tuple(
        Mark(x, (level - 1) * 100, f"{name}, start {number}: {(level - 1) * 100:+.2f}%")
        for number, (x, level) in enumerate(zip(at, found, strict=True), start=1)
    )
    return Series(name, look, marks, line=True)


def _floors(data: ReportData) -> Table:
    rows = tuple(
        (data.server_name(server), *(_floor(data, server, point) for point in data.points)) for server in data.servers
    )
    return Table(
        "Noise floor: by how much two starts of an unchanged cell differ, 5% of the time or less",
        ("host", *data.heads.values()),
        rows,
        right=frozenset(range(1, len(data.points) + 1)),
    )


def _floor(data: ReportData, server: Server, point: Point) -> str:
    floor = data.judgement.floor(server, point)
    return ABSENT if floor is None else percent(floor.fraction)
