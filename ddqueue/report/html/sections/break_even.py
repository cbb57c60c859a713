"""Whether speculation pays: what is accepted, against what would have to be to be as fast as without."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ddqueue.domain.sweep import Point
from ddqueue.report.comparing import BreakEven, break_even_at
from ddqueue.report.html.blocks import Block, Cell, Entry, Figure, Section, Table, Tone
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.numbers import ABSENT
from ddqueue.report.html.plots.chart import Axis, Chart, Direction, Mark, Rule, Series
from ddqueue.report.html.plots.style import style
from ddqueue.report.pairs import Pair

_LEAD = (
    "A verify step with a tree takes longer than a plain one. Break-even acceptance is how many tokens a step must "
    "yield to make up for it: step time / the baseline's step time. Above the line speculation pays, below it costs."
)


@dataclass(frozen=True)
class _Speculating:
    """A configuration beside its baseline, at every point."""

    pair: Pair
    points: tuple[BreakEven, ...]


def break_even(data: ReportData) -> Section | None:
    """None without a baseline whose steps were timed."""
    beside = [
        _Speculating(pair, tuple(break_even_at(pair, at) for at in pair.points)) for pair in data.against_baselines
    ]
    found = [one for one in beside if any(at.margin is not None for at in one.points)]
    if not found:
        return None
    blocks: list[Block] = []
    concurrencies = list(dict.fromkeys(point.concurrency for point in data.points))
    charts, tables = [], []
    for server in data.servers:
        own = [one for one in found if one.pair.b.cell.measured.server == server]
        if own:
            charts.append(_chart(data.server_name(server), concurrencies, own))
            tables.append(_table(data, data.server_name(server), own))
    legend = tuple(Entry(f"C={users}", style(number)) for number, users in enumerate(concurrencies))
    blocks += [Figure(tuple(charts), legend, columns=len(charts)), *tables]
    return Section("break-even", "Does speculation pay?", _LEAD, tuple(blocks))


def _chart(name: str, concurrencies: list[int], found: list[_Speculating]) -> Chart:
    series = []
    for number, users in enumerate(concurrencies):
        marks = tuple(
            mark for one in found for at in one.points if at.point.concurrency == users for mark in _marks(one, at)
        )
        series.append(Series(f"C={users}", style(number), marks))
    return Chart(
        title=name,
        x=Axis("break-even acceptance (tokens/verify)", low=1.0),
        y=Axis("measured acceptance (tokens/verify)", low=1.0),
        series=tuple(one for one in series if one.marks),
        rules=(Rule(Direction.SLOPE, 1.0, "break-even"),),
        simulated=any(one.pair.b.cell.measured.is_simulated for one in found),
        height=300,
    )


def _marks(one: _Speculating, at: BreakEven) -> Iterable[Mark]:
    if at.acceptance is not None and at.margin is not None and at.accepted is not None:
        said = f"{at.accepted:.2f} accepted, break-even {at.acceptance:.2f}, margin {at.margin:+.2f}"
        tip = f"{one.pair.b.cell.name} at {at.point.label}: {said}"
        yield Mark(at.acceptance, at.accepted, tip, hollow=not one.pair.b.cell.verdict.is_ranked)


def _table(data: ReportData, name: str, found: list[_Speculating]) -> Table:
    rows = tuple(
        (Cell(one.pair.b.cell.name, Tone.STRONG), *(_margin(one, point) for point in data.points)) for one in found
    )
    return Table(
        f"Margin on {name}: measured - break-even acceptance, tokens per verify",
        ("configuration", *data.heads.values()),
        rows,
        right=frozenset(range(1, len(data.points) + 1)),
        notes=("+ pays, - costs; in brackets the break-even acceptance",),
    )


def _margin(one: _Speculating, point: Point) -> Cell | str:
    at = next((at for at in one.points if at.point == point), None)
    if at is None or at.margin is None:
        return ABSENT
    return Cell(f"{at.margin:+.2f} ({at.acceptance:.2f})", Tone.GOOD if at.margin > 0 else Tone.BAD)
