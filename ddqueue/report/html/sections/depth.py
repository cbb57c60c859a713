"""Acceptance by depth: how far down a drafter is any good, and where one beyond its training collapses."""

from __future__ import annotations

from ddqueue.domain.metrics.draft_histogram import acceptance_by_depth
from ddqueue.report.cells import Server
from ddqueue.report.html.blocks import Block, Entry, Figure, Items, Section, Tone
from ddqueue.report.html.cell_styles import CellStyles
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.plots.chart import Axis, Chart, Direction, Mark, Rule, Series, Tick
from ddqueue.report.html.plots.style import OTHER
from ddqueue.report.judgement import JudgedCell

_LEAD = (
    "Of the drafts tried at a depth, the share that the model agreed with. A trained drafter falls gently; one whose "
    "block is longer than it was trained for may drop to nothing where its training ends."
)
FEW = 30
"""Below so many drafts tried, a share is drawn hollow: it may be anything."""


def depth(data: ReportData, styles: CellStyles) -> Section | None:
    """None where no server reported how many drafts each verify accepted."""
    found = [
        (server, drafting)
        for server in data.servers
        if (drafting := [cell for cell in data.cells(server) if cell.measured.draft_histogram])
    ]
    if not found:
        return None
    charts = tuple(_chart(data, styles, server, cells) for server, cells in found)
    legend = styles.legend((cell for _, cells in found for cell in cells), line=True)
    if any(chart.has_hollow_marks for chart in charts):
        legend += (Entry(f"fewer than {FEW} drafts tried", OTHER, hollow=True),)
    blocks: list[Block] = [Figure(charts, legend, columns=len(charts))]
    beyond = [cell for _, cells in found for cell in cells if cell.measured.row["out_of_distribution"]]
    if beyond:
        said = (f"{data.server_name(c.measured.server)}, {c.measured.label}: {c.verdict.words}" for c in beyond)
        blocks.append(Items(tuple(said), Tone.DOUBT))
    return Section("depth", "Acceptance by depth", _LEAD, tuple(blocks))


def _chart(data: ReportData, styles: CellStyles, server: Server, cells: list[JudgedCell]) -> Chart:
    trained = [cell.measured.row["block_size"] for cell in cells if not cell.measured.row["out_of_distribution"]]
    beyond = any(cell.measured.row["out_of_distribution"] for cell in cells)
    # Without a cell of the trained size beside it nobody here knows where training ends.
    rules = (Rule(Direction.UP, max(trained) - 0.5, "beyond its training"),) if trained and beyond else ()
    deepest = max(len(cell.measured.draft_histogram) for cell in cells) - 1
    return Chart(
        title=data.server_name(server),
        x=Axis("depth in the draft (tokens)", ticks=tuple(Tick(at, str(at)) for at in range(1, deepest + 1))),
        y=Axis("drafts accepted (share, 0 to 1)", low=0.0, high=1.0),
        series=tuple(Series(cell.name, styles.of(cell), _marks(cell), line=True) for cell in cells),
        rules=rules,
        simulated=any(cell.measured.is_simulated for cell in cells),
        height=300,
    )


def _marks(cell: JudgedCell) -> tuple[Mark, ...]:
    histogram = cell.measured.draft_histogram
    marks = []
    for at, share in enumerate(acceptance_by_depth(histogram), start=1):
        if share is not None:
            tried = sum(histogram[at - 1 :])
            tip = f"{cell.name}, depth {at}: {share:.2f} of {tried:,} drafts accepted"
            marks.append(Mark(at, share, tip, hollow=tried < FEW))
    return tuple(marks)
