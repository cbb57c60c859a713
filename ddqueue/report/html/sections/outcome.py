"""What was expected and what came of it: the comparisons that bear on most hypotheses, each in a sentence.

A hypothesis is written for people, and nothing here reads it. What a sweep is usually about is asked instead, wherever
it has the cells for it: does speculation pay, do small trees or large ones, does the draft window matter, and what
became of a block the drafter was not trained for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from ddqueue.domain.comparison import CellComparison, compare_cells, inverse
from ddqueue.domain.noise import percent
from ddqueue.domain.ranking import Place, Ranking
from ddqueue.domain.statistics import Difference
from ddqueue.domain.sweep import Point
from ddqueue.report.cells import Server
from ddqueue.report.html.blocks import Block, Items, Section, Tone, Words
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.numbers import listed
from ddqueue.report.judgement import JudgedCell

_UNCONTROLLED = (
    "No cell was visited twice: these runs differ so, but how much another start of the same server would is unknown."
)
_LEAD = (
    "Nothing here reads the hypothesis: these are the comparisons of ranked cells that bear on it. A difference counts "
    "when it is significant (5%) and larger than the noise between two starts of one server."
)


def outcome(data: ReportData) -> Section | None:
    """None while nothing has been compared."""
    contrasts = [(server, contrast) for server in data.servers for contrast in _contrasts(data, server)]
    beyond = tuple(_beyond_training(data))
    blocks: list[Block] = []
    for server in data.servers:
        sentences = tuple(contrast.words for own, contrast in contrasts if own == server and contrast.words)
        if sentences:
            blocks += [Words(data.server_name(server), Tone.STRONG), Items(sentences)]
    if any(one.is_uncontrolled for _, one in contrasts):
        blocks.append(Words(_UNCONTROLLED, Tone.DOUBT))
    if beyond:
        blocks.append(Items(beyond, Tone.DOUBT))
    if not blocks:
        return None
    if data.simulated:
        blocks.append(Words("Simulated: this shows what ddqueue does, and says nothing about any GPU.", Tone.DOUBT))
    return Section("outcome", "What came of it", _LEAD, tuple(blocks))


def _contrasts(data: ReportData, server: Server) -> list[_Contrast]:
    ranked = [cell for cell in data.cells(server) if cell.verdict.is_ranked]
    found = (_speculation(data, server, ranked), _budgets(data, ranked), _windows(data, ranked))
    return [contrast for contrast in found if contrast is not None]


@dataclass(frozen=True)
class _Contrast:
    """Two ways to do a thing, `b` held against `a` at each point, by the names of the points."""

    a: str
    b: str
    compared: dict[str, CellComparison]

    @property
    def words(self) -> str:
        """`b4 is faster than b16 at C=32 60 (+74% ±9%); b16 at C=1 4k (+22% ±8%); within noise at C=1 60`."""
        known = {where: one for where, one in self.compared.items() if one.ratio is not None}
        clear = {
            where: one for where, one in known.items() if one.verdict in (Difference.DIFFERENT, Difference.UNCONTROLLED)
        }
        better = {where: one for where, one in clear.items() if one.ratio is not None and one.ratio.mean > 1}
        worse = {where: one for where, one in clear.items() if where not in better}
        few = [where for where, one in self.compared.items() if one.verdict is Difference.TOO_FEW]
        level = [where for where in known if where not in clear and where not in few]
        parts = []
        if better:
            parts.append(f"{self.b} is faster than {self.a} at {_places(better)}")
        if worse:
            parts.append(f"{self.a} is faster than {self.b} at {_places(worse)}")
        if level:
            parts.append(
                f"{'within noise' if parts else f'{self.b} against {self.a} is within noise'} at {listed(level)}"
            )
        if few and parts:
            parts.append(f"too few repeats to say at {listed(few)}")
        return "; ".join(parts)

    @property
    def is_uncontrolled(self) -> bool:
        """Whether a difference counts for these runs only."""
        return any(one.verdict is Difference.UNCONTROLLED for one in self.compared.values())


def _places(found: dict[str, CellComparison]) -> str:
    return listed([f"{where} ({_gain(one)})" for where, one in found.items()])


def _gain(one: CellComparison) -> str:
    assert one.ratio is not None
    gain = one.ratio if one.ratio.mean >= 1 else inverse(one.ratio)
    doubt = ", on few repeats" if one.hangs_on_few_repeats else ""
    if gain.half_width >= gain.mean - 1:
        # An interval of a ratio is wider upwards: a ± would reach below nothing where its lower end does not.
        return f"+{percent(gain.low - 1)} to +{percent(gain.high - 1)}{doubt}"
    return f"+{percent(gain.mean - 1)} ±{percent(gain.half_width)}{doubt}"


def _speculation(data: ReportData, server: Server, ranked: list[JudgedCell]) -> _Contrast | None:
    """The fastest tree at each point against the baseline."""
    baseline = next((cell for cell in ranked if cell.measured.row["baseline"]), None)
    if baseline is None or len(ranked) < 2:
        return None
    compared = {}
    for ranking in data.judgement.rankings:
        best = _best_speculating(ranking, server, baseline) if ranking.host == server[0] else None
        if best is not None:
            compared[data.heads[ranking.point]] = compare_cells(
                baseline.measured.starts_at(ranking.point),
                best.candidate.visits[ranking.point],
                data.judgement.floor(server, ranking.point),
            )
    return _Contrast("no speculation", "the best tree", compared)


def _best_speculating(ranking: Ranking, server: Server, baseline: JudgedCell) -> Place | None:
    return next(
        (
            place
            for place in ranking.places
            if place.candidate.parallelism == server[1] and place.candidate.label != baseline.name
        ),
        None,
    )


def _budgets(data: ReportData, ranked: list[JudgedCell]) -> _Contrast | None:
    """The smallest tree against the largest, of those that have the same block and window."""
    families: dict[tuple[object, object], list[JudgedCell]] = {}
    for cell in ranked:
        row = cell.measured.row
        if row["budget"] is not None:
            families.setdefault((row["block_size"], row["draft_window"]), []).append(cell)
    largest = max(families.values(), key=lambda family: len({_budget(cell) for cell in family}), default=[])
    if len({_budget(cell) for cell in largest}) < 2:
        return None
    return _cells_contrast(data, max(largest, key=_budget), min(largest, key=_budget))


def _windows(data: ReportData, ranked: list[JudgedCell]) -> _Contrast | None:
    """Two cells that differ in nothing but the draft window."""
    unlimited: dict[str, JudgedCell] = {}
    for cell in ranked:
        if not _has_window(cell):
            unlimited.setdefault(_without_window(data, cell), cell)
    for cell in ranked:
        if _has_window(cell) and (other := unlimited.get(_without_window(data, cell))) is not None:
            return _cells_contrast(data, other, cell)
    return None


def _cells_contrast(data: ReportData, a: JudgedCell, b: JudgedCell) -> _Contrast:
    def at(point: Point) -> CellComparison:
        floor = data.judgement.floor(a.measured.server, point)
        return compare_cells(a.measured.starts_at(point), b.measured.starts_at(point), floor)

    return _Contrast(a.measured.label, b.measured.label, {data.heads[point]: at(point) for point in data.points})


def _budget(cell: JudgedCell) -> int:
    return int(cell.measured.row["budget"])


def _has_window(cell: JudgedCell) -> bool:
    return cell.measured.row["draft_window"] is not None


def _without_window(data: ReportData, cell: JudgedCell) -> str:
    """Equal for cells that differ in the window only."""
    full = data.judged.canonical[cell.measured.row["cell_hash"]]
    speculation = full["speculation"] and {**full["speculation"], "window": None}
    return json.dumps({**full, "speculation": speculation}, sort_keys=True)


def _beyond_training(data: ReportData) -> Iterable[str]:
    """What became of each cell whose block the drafter was not trained for."""
    return [
        f"{data.server_name(cell.measured.server)}, {cell.measured.label}: {cell.verdict.words}"
        for cell in data.judgement.cells
        if cell.measured.row["out_of_distribution"] and cell.verdict.words
    ]
