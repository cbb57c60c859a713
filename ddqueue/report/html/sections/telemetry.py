"""What the GPUs did while they were measured: power, clocks, heat, energy, and the marks that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddqueue.domain.sweep import Point
from ddqueue.report.cells import Server
from ddqueue.report.html.blocks import Block, Cell, Items, Section, Table, Tone
from ddqueue.report.html.data import ReportData, Row
from ddqueue.report.html.numbers import ABSENT
from ddqueue.report.judgement import JudgedCell
from ddqueue.report.verdicts import MARK_WORDS

_LEAD = "Over exactly the measured windows, of valid repeats. Power is that of all GPUs of the box together."


def telemetry(data: ReportData) -> Section | None:
    """None where nobody watched the GPUs."""
    if not data.telemetry:
        return None
    blocks: list[Block] = []
    for server in data.servers:
        rows: dict[str, list[Row]] = {}
        for row in data.telemetry:
            if (row["host"], row["parallel"]) == server:
                rows.setdefault(row["cell_hash"], []).append(row)
        if rows:
            blocks += [_gpus(data, server, rows), _energy(data, server, rows)]
    used = dict.fromkeys(mark for cell in data.judgement.cells for mark in cell.verdict.marks)
    if used:
        blocks.append(Items(tuple(f"{mark}: {MARK_WORDS[mark]}" for mark in used)))
    return Section("telemetry", "Power, clocks and heat", _LEAD, tuple(blocks))


def _gpus(data: ReportData, server: Server, rows: Mapping[str, Sequence[Row]]) -> Table:
    """`rows` are those of each configuration, by its hash."""
    shown: list[tuple[Cell | str, ...]] = []
    for cell in data.cells(server):
        own = rows.get(cell.measured.row["cell_hash"])
        if own:
            shown.append((Cell(cell.name, Tone.STRONG), *_numbers(own), _marks(cell)))
    simulated = " (simulated)" if data.simulated_on(server[0]) else ""
    return Table(
        f"GPUs of {data.server_name(server)}{simulated}",
        (
            "configuration",
            "GPUs",
            "power W",
            "SM clock MHz",
            "lowest to highest",
            "hottest C",
            "memory GiB a GPU",
            "marks",
        ),
        tuple(shown),
        right=frozenset(range(1, 7)),
    )


def _numbers(rows: Sequence[Row]) -> tuple[str, ...]:
    """Means over the points, each of which counts the same; extremes over all."""
    low, high = _least(rows, "sm_clock_min_mhz"), _most(rows, "sm_clock_max_mhz")
    memory_mib = _most(rows, "memory_used_max_mib")
    return (
        _whole(_most(rows, "gpus")),
        _whole(_mean(rows, "power_w")),
        _whole(_mean(rows, "sm_clock_mhz")),
        ABSENT if low is None or high is None else f"{low:,.0f} to {high:,.0f}",
        _whole(_most(rows, "temperature_max_c")),
        ABSENT if memory_mib is None else f"{memory_mib / 1024:.1f}",
    )


def _energy(data: ReportData, server: Server, rows: Mapping[str, Sequence[Row]]) -> Table:
    shown: list[tuple[Cell | str, ...]] = []
    for cell in data.cells(server):
        own = {_point(row): row["energy_per_token_j"] for row in rows.get(cell.measured.row["cell_hash"], ())}
        if any(value is not None for value in own.values()):
            values = (own.get(point) for point in data.points)
            energies = (ABSENT if value is None else f"{value:.2f}" for value in values)
            shown.append((Cell(cell.name, Tone.STRONG), *energies))
    heads = ("configuration", *data.heads.values())
    name = data.server_name(server)
    return Table(
        f"Energy on {name}: joules per output token", heads, tuple(shown), right=frozenset(range(1, len(heads)))
    )


def _point(row: Row) -> Point:
    return Point(row["concurrency"], row["context_tokens"], row["output_tokens_asked"])


def _marks(cell: JudgedCell) -> str:
    return ", ".join(cell.verdict.marks) or "none"


def _known(rows: Sequence[Row], name: str) -> list[float]:
    return [float(row[name]) for row in rows if row[name] is not None]


def _mean(rows: Sequence[Row], name: str) -> float | None:
    known = _known(rows, name)
    return sum(known) / len(known) if known else None


def _least(rows: Sequence[Row], name: str) -> float | None:
    return min(_known(rows, name), default=None)


def _most(rows: Sequence[Row], name: str) -> float | None:
    return max(_known(rows, name), default=None)


def _whole(value: float | None) -> str:
    return ABSENT if value is None else f"{value:,.0f}"
