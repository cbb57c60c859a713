"""Whether speculation pays: what is accepted, against what would have to be to be as fast as without."""

from __future__ import annotations

from collections.abc import Iterable

from ddqueue.domain.sweep import Point
from ddqueue.report.comparing import PairComparison, PointComparison
from ddqueue.report.html.blocks import Block, Cell, Entry, Figure, Section, Table, Tone
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.numbers import ABSENT
from ddqueue.report.html.plots.chart import Axis, Chart, Direction, Mark, Rule, Series
from ddqueue.report.html.plots.style import style

_LEAD = (
    "A verify step with a tree takes longer than a plain one. Break-even acceptance is how many tokens a step must "
    "yield to make up for it: step time / the baseline's step time. Above the line speculation pays, below it costs."
)


def break_even(data: ReportData) -> Section | None:
    """None without a baseline whose steps were timed."""
    found = [one for one in data.against_baselines if any(at.margin is not None for at in one.points)]
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


def _chart(name: str, concurrencies: list[int], found: list[PairComparison]) -> Chart:
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


def _marks(one: PairComparison, at: PointComparison) -> Iterable[Mark]:
    accepted = at.b.acceptance_length
    if at.break_even is not None and at.margin is not None and accepted is not None:
        said = f"{accepted:.2f} accepted, break-even {at.break_even:.2f}, margin {at.margin:+.2f}"
        tip = f"{one.pair.b.cell.name} at {at.point.label}: {said}"
        yield Mark(at.break_even, accepted, tip, hollow=not one.pair.b.cell.verdict.is_ranked)


def _table(data: ReportData, name: str, found: list[PairComparison]) -> Table:
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


def _margin(one: PairComparison, point: Point) -> Cell | str:
    at = next((at for at in one.points if at.point == point), None)
    if at is None or at.margin is None:
        return ABSENT
    return Cell(f"{at.margin:+.2f} ({at.break_even:.2f})", Tone.GOOD if at.margin > 0 else Tone.BAD)
