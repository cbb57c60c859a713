"""The table: one row a configuration, one column a point, coding and verdict."""

from __future__ import annotations

from ddqueue.domain.states import JobState
from ddqueue.domain.verdict import Unranked
from ddqueue.report.coding import coding_text
from ddqueue.report.html.blocks import Block, Cell, Section, Table, Tone
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.numbers import ABSENT
from ddqueue.report.judgement import JudgedCell
from ddqueue.report.table import throughput
from ddqueue.report.verdicts import verdict_notes
from ddqueue.report.visits import measured

_LEAD = (
    "Output tokens per second, mean ± half of the 95% interval. C is how many requests run at once, the number behind "
    "it the prompt's length in tokens. Bold is the fastest that is ranked."
)

_INVALID = "*  some repeats were not valid and are left out"


def table(data: ReportData) -> Section:
    """One table a host."""
    blocks: list[Block] = [_table(data, host) for host in data.judgement.hosts]
    return Section("table", "All configurations", _LEAD, tuple(blocks))


def _table(data: ReportData, host: str) -> Table:
    cells = [cell for cell in data.judgement.cells if cell.measured.server[0] == host]
    has_coding = any(row.get("coding_asked") for row in data.judgement.rows)
    has_visits = any(len(cell.measured.visits) > 1 for cell in cells)
    verdicts = verdict_notes(cells, data.points)
    heads = ("configuration", "ranked", *data.heads.values(), "acceptance")
    heads += (("coding",) if has_coding else ()) + (("starts",) if has_visits else ())
    rows = []
    for cell in cells:
        verdict = verdicts.words[cell.measured.key]
        ranked = Cell(verdict, _tone(cell))
        tail: list[Cell | str] = [_coding(cell)] if has_coding else []
        tail += [str(cell.measured.row.get("visits", ""))] if has_visits else []
        rows.append((_name(cell), ranked, *_numbers(data, cell), *tail))
    has_invalid = any(found["n_invalid"] for cell in cells for found in cell.measured.row["points"] or ())
    parallels = ", ".join(parallel for _, parallel in data.judgement.servers(host))
    return Table(
        f"{host}, {parallels}{' (simulated)' if data.simulated_on(host) else ''}",
        heads,
        tuple(rows),
        right=frozenset(range(2, len(data.points) + 3)),
        notes=(*((_INVALID,) if has_invalid else ()), *verdicts.notes),
    )


def _tone(cell: JudgedCell) -> Tone:
    """What has not ended yet is no bad news."""
    if cell.verdict.is_ranked:
        return Tone.GOOD
    return Tone.QUIET if Unranked.NOT_FINISHED in cell.verdict.reasons else Tone.BAD


def _name(cell: JudgedCell) -> Cell:
    row = cell.measured.row
    tags = (("out of distribution",) if row["out_of_distribution"] else ()) + (
        ("control",) if cell.measured.is_control else ()
    )
    return Cell(cell.name, Tone.STRONG, tags)


def _numbers(data: ReportData, cell: JudgedCell) -> list[Cell | str]:
    row = cell.measured.row
    if row["state"] != JobState.SUCCEEDED:
        reason = f"{row['state']}: {row['failure']}" if row["failure"] else str(row["state"])
        return [Cell(reason, Tone.BAD if row["failure"] else Tone.QUIET), *[ABSENT] * len(data.points)]
    firsts = {
        ranking.point: ranking.places[0].candidate.label
        for ranking in data.judgement.rankings
        if ranking.host == cell.measured.server[0] and ranking.places
    }
    quiet = None if cell.verdict.is_ranked else Tone.QUIET
    found: list[Cell | str] = [
        Cell(
            throughput(measured(row, point), data.judgement.measure.repeats),
            Tone.STRONG if firsts.get(point) == cell.name else quiet,
        )
        for point in data.points
    ]
    acceptance = row["acceptance_length"]
    return [*found, ABSENT if acceptance is None else f"{acceptance:.2f}"]


def _coding(cell: JudgedCell) -> Cell:
    row = cell.measured.row
    text = coding_text(row, cell.drops) if row["state"] == JobState.SUCCEEDED else ABSENT
    return Cell(text, Tone.BAD if cell.drops else None)
