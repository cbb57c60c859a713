"""Which configuration gets which colour and shape: the same in every plot of a report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ddqueue.report.html.blocks import Entry
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.plots.style import BASELINE, OTHER, Style, style
from ddqueue.report.judgement import JudgedCell

MOST = 12
"""Beyond so many a legend is not read any more: the others are drawn in grey, and the tables name them."""

_OTHERS = "other configurations"


@dataclass(frozen=True)
class CellStyles:
    """The styles by the configuration's name, which is the same on every host."""

    by_name: dict[str, Style]

    def of(self, cell: JudgedCell) -> Style:
        return self.by_name.get(cell.name, OTHER)

    def legend(self, cells: Iterable[JudgedCell], *, line: bool = False) -> tuple[Entry, ...]:
        """An entry for each of the configurations, once, and one for all that are drawn in grey."""
        found = dict.fromkeys((cell.name if cell.name in self.by_name else _OTHERS) for cell in cells)
        named = [Entry(name, self.by_name[name], line=line) for name in self.by_name if name in found]
        return (*named, *([Entry(_OTHERS, OTHER, line=line)] if _OTHERS in found else []))


def cell_styles(data: ReportData) -> CellStyles:
    """The baseline, then those that lead or come second somewhere, then others in the order of the file; numbered in
    the order of the file, so that neighbours differ most."""
    cells = [cell for cell in data.judgement.cells if cell.measured.repeats]
    leading = [place.candidate.label for ranking in data.judgement.rankings for place in ranking.places[:2]]
    names = dict.fromkeys(cell.name for cell in cells if not cell.measured.row["baseline"])
    chosen = set(list(dict.fromkeys([*(name for name in leading if name in names), *names]))[:MOST])
    numbered = [name for name in names if name in chosen]
    baselines = {cell.name: BASELINE for cell in cells if cell.measured.row["baseline"]}
    return CellStyles(baselines | {name: style(number) for number, name in enumerate(numbered)})
