"""The answer for each host and use: the winner, the runner-up, the margin, and whether it is more than noise."""

from __future__ import annotations

from ddqueue.domain.comparison import CellComparison
from ddqueue.domain.ranking import Ranking
from ddqueue.domain.statistics import Difference
from ddqueue.domain.sweep import Point
from ddqueue.report.html.blocks import Block, Cell, Items, Section, Table, Tone, Words
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.numbers import ABSENT, times
from ddqueue.report.html.sections.advice import NAMES, advice
from ddqueue.report.judgement import JudgedCell
from ddqueue.report.leaders import leaders_of, margin_words, noise_words
from ddqueue.report.point_names import uses
from ddqueue.report.table import throughput
from ddqueue.report.visits import measured

_LEAD = (
    "Only configurations whose numbers are valid and whose answers are right are ranked. The floor is what two starts "
    "of one unchanged server differ by: a smaller lead is noise."
)
_HEADS = ("for", "point", "take", "tok/s", "against no speculation", "runner-up", "ahead by", "is that real?")


def answers(data: ReportData) -> Section:
    """A sentence a host, then one table a host."""
    said = tuple(words for host in data.judgement.hosts if (words := advice(data, host)) is not None)
    blocks: list[Block] = [Items(said)] if said else []
    for host in data.judgement.hosts:
        leaders = leaders_of(data.judgement, host)
        rankings = [ranking for ranking in data.judgement.rankings if ranking.host == host]
        if not any(ranking.places for ranking in rankings):
            blocks.append(Words(f"{host}: no configuration has been ranked yet.", Tone.DOUBT))
            continue
        named = uses(data.points)
        rows = tuple(
            (named.get(one.point, _users(one.point)), data.heads[one.point], *_cells(data, one)) for one in rankings
        )
        notes = leaders.notes if leaders else ("only one configuration is ranked, so that there is nothing to choose",)
        caption = leaders.title if leaders else f"the fastest on {host}"
        blocks.append(Table(_capital(caption), _HEADS, rows, right=frozenset({3, 4}), notes=notes))
    if any(cell.measured.row["budget"] is not None for cell in data.judgement.cells):
        blocks.append(Words(NAMES, Tone.QUIET))
    return Section("answers", "The answer", _LEAD, tuple(blocks))


def _cells(data: ReportData, ranking: Ranking) -> tuple[Cell | str, ...]:
    if not ranking.places:
        return ("nothing to rank", *[ABSENT] * 5)
    first, second = ranking.places[0], ranking.runner_up
    head = (Cell(first.candidate.label, Tone.STRONG), _speed(data, ranking), _speed_up(data, ranking))
    if second is None or second.against_first is None:
        return (*head, "nobody", ABSENT, ABSENT)
    compared = second.against_first
    words = Cell(noise_words(compared), _tone(compared))
    return (*head, second.candidate.label, margin_words(compared), words)


def _users(point: Point) -> str:
    return "one user" if point.concurrency == 1 else f"{point.concurrency} users"


def _speed(data: ReportData, ranking: Ranking) -> str:
    """As the table of all configurations has it."""
    label = ranking.places[0].candidate.label
    cells = (cell for cell in data.judgement.cells if cell.measured.server[0] == ranking.host and cell.name == label)
    return throughput(measured(next(cells).measured.row, ranking.point), data.judgement.measure.repeats)


def _speed_up(data: ReportData, ranking: Ranking) -> str:
    """Against the baseline with the winner's parallelism, if it has a place itself."""
    first = ranking.places[0]
    baselines = {cell.name for cell in data.cells((ranking.host, first.candidate.parallelism)) if _is_baseline(cell)}
    if first.candidate.label in baselines:
        return f"{times(1)}, itself"
    found = next((place for place in ranking.places if place.candidate.label in baselines), None)
    return ABSENT if found is None else times(first.mean_tok_s / found.mean_tok_s)


def _is_baseline(cell: JudgedCell) -> bool:
    return bool(cell.measured.row["baseline"])


def _tone(compared: CellComparison) -> Tone:
    return Tone.GOOD if compared.verdict is Difference.DIFFERENT else Tone.DOUBT


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
