"""The same configuration on two hosts: how much faster the one is, and whether both accept the same."""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.comparison import CellComparison
from ddqueue.domain.statistics import Difference
from ddqueue.domain.sweep import Point
from ddqueue.report.comparing import PairComparison, PointComparison, compare_pairs
from ddqueue.report.html.blocks import Block, Cell, Entry, Figure, Items, Section, Table, Tone, Words
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.numbers import ABSENT, times
from ddqueue.report.html.plots.chart import Axis, Chart, Direction, Mark, Rule, Series, Tick
from ddqueue.report.html.plots.style import Style, style
from ddqueue.report.leaders import noise_words
from ddqueue.report.pairs import two_servers

_LEAD = (
    "The same cell on both boxes. A ratio above 1 means that the second box is faster. How long the drafter is right "
    "should not depend on the box: where acceptance differs by more than chance, look at kernels, numerics and the "
    "chat template."
)
_CLEAR, _RUNS_ONLY, _LEVEL = style(0), style(2), Style("c-base")
_CLEAR_WORDS, _RUNS_WORDS, _LEVEL_WORDS = (
    "beyond noise",
    "these runs differ, but the noise between starts is unknown",
    "within noise, or too few repeats to say",
)
_ROW_PX, _FRAME_PX = 19.0, 96.0
_MOST = 24
"""Beyond so many rows a plot is a wall; the table below has them all."""


def pairs(data: ReportData) -> Section | None:
    """The first host against each other one, parallelism by parallelism; None with one host."""
    blocks: list[Block] = []
    hosts = data.judgement.hosts
    for host in hosts[1:]:
        for a, b in _servers(data, hosts[0], host):
            found = compare_pairs(two_servers(data.judged, a, b), allow_simulated_against_real=True)
            blocks += _blocks(data, a, b, [one for one in found if _is_measured(one)])
    title = " against ".join(dict.fromkeys(_interconnects(data))) or "Two boxes"
    return Section("pairs", title, _LEAD, tuple(blocks)) if blocks else None


def _servers(data: ReportData, a: str, b: str) -> list[tuple[str, str]]:
    """Equal parallelisms where there are any; else each with each, since cells are compared whatever theirs is."""
    mine, theirs = ([parallel for _, parallel in data.judgement.servers(host)] for host in (a, b))
    shared = [(parallel, parallel) for parallel in mine if parallel in theirs]
    both = shared or [(one, other) for one in mine for other in theirs]
    return [(f"{a}/{one}", f"{b}/{other}") for one, other in both]


def _interconnects(data: ReportData) -> list[str]:
    known = {"pcie": "PCIe", "nvlink": "NVLink"}
    names = [str(host["interconnect"] or host["name"]) for host in data.hosts]
    return [known.get(name.lower(), name) for name in names]


def _is_measured(pair: PairComparison) -> bool:
    return any(one.throughput.ratio is not None for one in pair.points)


def _blocks(data: ReportData, a: str, b: str, found: Sequence[PairComparison]) -> list[Block]:
    names = a.replace("/", " "), b.replace("/", " ")
    if not found:
        return [Words(f"{names[1]} against {names[0]}: no configuration has been measured on both yet.", Tone.QUIET)]
    mixed = any(one.pair.mixes_simulated_and_real for one in found)
    blocks: list[Block] = []
    if mixed:
        blocks.append(Words("One side is simulated and the other is not: this says nothing about hardware.", Tone.BAD))
    charts = tuple(_chart(data, names, found[:_MOST], point) for point in data.points)
    legend = (
        Entry(_CLEAR_WORDS, _CLEAR),
        Entry(_RUNS_WORDS, _RUNS_ONLY),
        Entry(_LEVEL_WORDS, _LEVEL, hollow=True),
    )
    blocks.append(Figure(tuple(chart for chart in charts if chart.series), legend))
    blocks.append(_acceptance(found))
    blocks.append(_table(data, names, found))
    return blocks


def _chart(data: ReportData, names: tuple[str, str], compared_pairs: Sequence[PairComparison], point: Point) -> Chart:
    rows = [(one.pair.a.cell.measured.label, at) for one in compared_pairs if (at := _at(one, point)) is not None]
    marks: dict[str, list[Mark]] = {_CLEAR_WORDS: [], _RUNS_WORDS: [], _LEVEL_WORDS: []}
    for number, (label, compared) in enumerate(rows):
        ratio = compared.throughput.ratio
        assert ratio is not None
        size = f"{times(ratio.mean)} ({ratio.low:.2f} to {ratio.high:.2f})"
        tip = f"{label} at {point.label}: {size}, {noise_words(compared.throughput)}"
        kind = _kind(compared.throughput)
        mark = Mark(ratio.mean, number, tip, x_bounds=(ratio.low, ratio.high), hollow=kind == _LEVEL_WORDS)
        marks[kind].append(mark)
    looks = (_CLEAR, _RUNS_ONLY, _LEVEL)
    series = (Series(kind, look, tuple(found)) for (kind, found), look in zip(marks.items(), looks, strict=True))
    return Chart(
        title=f"Speed ratio at {data.heads[point]}",
        x=Axis(f"{names[1]} / {names[0]} (ratio of tokens/s)", low=1.0, high=1.0),
        y=Axis(
            "configuration",
            ticks=tuple(Tick(number, label) for number, (label, _) in enumerate(rows)),
            low=-0.6,
            high=len(rows) - 0.4,
            downwards=True,
        ),
        series=tuple(one for one in series if one.marks),
        rules=(Rule(Direction.UP, 1.0),),
        simulated=any(side.cell.measured.is_simulated for one in compared_pairs for side in (one.pair.a, one.pair.b)),
        height=_FRAME_PX + _ROW_PX * len(rows),
    )


def _kind(compared: CellComparison) -> str:
    kinds = {Difference.DIFFERENT: _CLEAR_WORDS, Difference.UNCONTROLLED: _RUNS_WORDS}
    return kinds.get(compared.verdict, _LEVEL_WORDS)


def _at(pair: PairComparison, point: Point) -> PointComparison | None:
    return next((one for one in pair.points if one.point == point and one.throughput.ratio is not None), None)


def _acceptance(found: Sequence[PairComparison]) -> Items:
    alarms = [
        f"ALARM: {one.pair.a.cell.measured.label} accepts {_number(at.a.acceptance_length)} on {one.pair.names[0]} and "
        f"{_number(at.b.acceptance_length)} on {one.pair.names[1]} at {at.point.label}: more than chance"
        for one in found
        for at in one.acceptance_differs
    ]
    if alarms:
        return Items(tuple(alarms), Tone.BAD)
    known = [one for one in found if one.acceptance_agrees is not None]
    if not known:
        return Items(("Acceptance could not be compared: no speculation, or too few repeats.",), Tone.QUIET)
    cells = "configuration" if len(known) == 1 else "configurations"
    return Items(
        (f"Acceptance agrees between the boxes, within chance, for all {len(known)} {cells} that speculate.",),
        Tone.GOOD,
    )


def _table(data: ReportData, names: tuple[str, str], found: Sequence[PairComparison]) -> Table:
    heads = ("configuration", *(data.heads[point] for point in data.points), "acceptance", "do both accept alike?")
    rows = []
    for one in found:
        ratios = [_ratio(at.throughput if (at := _at(one, point)) else None) for point in data.points]
        lengths = [side.cell.measured.row["acceptance_length"] for side in (one.pair.a, one.pair.b)]
        acceptance = " | ".join(_number(length) for length in lengths) if any(lengths) else ABSENT
        rows.append((Cell(one.pair.a.cell.measured.label, Tone.STRONG), *ratios, acceptance, _agreement(one)))
    return Table(
        f"{names[1]} / {names[0]}: ratio of output tokens/s ± half of its 95% interval",
        heads,
        tuple(rows),
        right=frozenset(range(1, len(data.points) + 2)),
        notes=(f"?  {_RUNS_WORDS}", f"~  {_LEVEL_WORDS}"),
    )


def _ratio(compared: CellComparison | None) -> Cell | str:
    if compared is None or compared.ratio is None:
        return ABSENT
    text = f"{compared.ratio.mean:.2f} ±{compared.ratio.half_width:.2f}"
    sign = {_CLEAR_WORDS: "", _RUNS_WORDS: "? ", _LEVEL_WORDS: "~ "}[_kind(compared)]
    return Cell(f"{sign}{text}", Tone.QUIET) if sign else text


def _agreement(pair: PairComparison) -> Cell | str:
    agrees = pair.acceptance_agrees
    if agrees is None:
        return ABSENT
    if agrees:
        return Cell("yes", Tone.GOOD)
    return Cell(f"no, at {', '.join(one.point.label for one in pair.acceptance_differs)}", Tone.BAD)


def _number(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.2f}"
