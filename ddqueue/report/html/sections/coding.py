"""Coding checks: how many problems each configuration solves, and which it lost."""

from __future__ import annotations

from ddqueue.domain.coding import Outcome
from ddqueue.domain.correctness import CodingScores
from ddqueue.report.cells import Server
from ddqueue.report.coding import scores_of
from ddqueue.report.html.blocks import Block, Cell, Items, Section, Table, Tone
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.numbers import ABSENT
from ddqueue.report.judgement import JudgedCell

_LEAD = (
    "Speculation must not change answers. Each configuration is held against its own box's baseline, problem by "
    "problem; one that answers worse, and not by luck, keeps its numbers and loses its rank."
)


def coding(data: ReportData) -> Section | None:
    """None where the sweep asked for none."""
    if not any(row.get("coding_asked") for row in data.judgement.rows):
        return None
    scored = {cell.measured.key: scores_of(cell.measured.row) for cell in data.judgement.cells}
    blocks: list[Block] = []
    for server in data.servers:
        cells = [cell for cell in data.cells(server) if scored[cell.measured.key]]
        if cells:
            blocks += _blocks(data, server, cells)
    if not blocks:
        blocks.append(Items(("No answer has been scored yet.",), Tone.QUIET))
    return Section("coding", "Coding", _LEAD, tuple(blocks))


def _blocks(data: ReportData, server: Server, cells: list[JudgedCell]) -> list[Block]:
    loads = sorted({score.concurrency for cell in cells for score in scores_of(cell.measured.row)})
    blocks: list[Block] = [
        Table(
            f"{data.server_name(server)}: answers that pass, of those that could be judged",
            ("configuration", *(f"C={load}" for load in loads), "what was lost"),
            tuple(_row(cell, loads) for cell in cells),
            right=frozenset(range(1, len(loads) + 1)),
        )
    ]
    for load in loads:
        lossy = [cell for cell in cells if any(not _is_whole(score) for score in _at(cell, load))]
        if lossy:
            blocks.append(_problems(data, server, load, lossy))
    return blocks


def _row(cell: JudgedCell, loads: list[int]) -> tuple[Cell | str, ...]:
    bad = {drop.concurrency for drop in cell.drops}
    if cell.measured.row["baseline"]:
        words: Cell | str = "the measure of the others"
    elif cell.drops:
        words = Cell("; ".join(drop.words for drop in cell.drops), Tone.BAD)
    else:
        whole = all(_is_whole(score) for score in scores_of(cell.measured.row))
        words = "nothing" if whole else "nothing beyond luck"
    return (Cell(cell.name, Tone.STRONG), *(_passed(cell, load, load in bad) for load in loads), words)


def _passed(cell: JudgedCell, load: int, is_bad: bool) -> Cell | str:
    scores = _at(cell, load)
    if not scores:
        return ABSENT
    text = ", ".join(f"{one.passed}/{one.judged}" for one in scores)
    return Cell(text, Tone.BAD if is_bad else None)


def _problems(data: ReportData, server: Server, load: int, cells: list[JudgedCell]) -> Table:
    """One column a problem, for the cells that did not pass every one."""
    names = list(dict.fromkeys(name for cell in cells for score in _at(cell, load) for name in score.outcomes))
    rows = []
    for cell in cells:
        outcomes = {name: found for score in _at(cell, load) for name, found in score.outcomes.items()}
        rows.append((Cell(cell.name, Tone.STRONG), *(_outcomes(outcomes.get(name, ())) for name in names)))
    return Table(
        f"{data.server_name(server)} at C={load}, problem by problem: those that lost any",
        ("configuration", *names),
        tuple(rows),
        right=frozenset(range(1, len(names) + 1)),
    )


def _outcomes(found: tuple[Outcome, ...]) -> Cell | str:
    """`2/3`, and what became of the others where it is not simply wrong."""
    if not found:
        return ABSENT
    passed = found.count(Outcome.PASSED)
    others = dict.fromkeys(one for one in found if one not in (Outcome.PASSED, Outcome.FAILED))
    kinds = ", ".join(f"{found.count(one)} {one.replace('_', ' ')}" for one in others)
    return Cell(f"{passed}/{len(found)}" + (f" ({kinds})" if kinds else ""), None if passed == len(found) else Tone.BAD)


def _at(cell: JudgedCell, load: int) -> list[CodingScores]:
    return [score for score in scores_of(cell.measured.row) if score.concurrency == load]


def _is_whole(score: CodingScores) -> bool:
    return score.passed == score.asked
