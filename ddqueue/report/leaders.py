"""Which configuration to take: the fastest at each point, for whom that is, the runner-up, and whether it is more than
noise. Pure.

It stands below the table of results and is no command of its own: whoever reads a recommendation should see at the same
time the numbers, verdicts and noise that it rests on.
"""

from __future__ import annotations

from dataclasses import dataclass

from ddqueue.domain.comparison import CellComparison
from ddqueue.domain.noise import percent
from ddqueue.domain.ranking import Ranking
from ddqueue.domain.statistics import Difference
from ddqueue.report.grid import Grid
from ddqueue.report.judgement import Judgement
from ddqueue.report.point_names import point_heads, uses

NOTHING = "-"


@dataclass(frozen=True)
class Leaders:
    """The table of one host, what is said above it and below."""

    title: str
    grid: Grid
    notes: tuple[str, ...]


def leaders_of(judgement: Judgement, host: str) -> Leaders | None:
    """None while no two configurations of the host are ranked."""
    rankings = [ranking for ranking in judgement.rankings if ranking.host == host]
    if all(ranking.runner_up is None for ranking in rankings):
        return None
    heads, named = dict(zip(judgement.points, point_heads(judgement.points), strict=True)), uses(judgement.points)
    ranked = {place.candidate.label for ranking in rankings for place in ranking.places}
    rows = tuple((named.get(one.point, ""), heads[one.point], *_cells(one)) for one in rankings)
    cells = [cell for cell in judgement.cells if cell.measured.server[0] == host]
    return Leaders(
        title=f"the fastest on {host}, of the {len(ranked)} configurations ranked out of {len(cells)}",
        grid=Grid(("for", "point", "fastest", "tok/s", "runner-up", "ahead by", "noise"), rows, right=frozenset({3})),
        notes=tuple(note for one in rankings if (note := _level_note(one, heads[one.point]))),
    )


def noise_words(compared: CellComparison) -> str:
    """What is to be made of a difference, in a few words."""
    floor = "floor unknown" if compared.floor is None else f"floor {percent(compared.floor)}"
    few = ", but it hangs on few repeats" if compared.hangs_on_few_repeats else ""
    match compared.verdict:
        case Difference.DIFFERENT:
            return f"beyond noise, {floor}{few}"
        case Difference.TOO_SMALL | Difference.NOT_SHOWN:
            return f"within noise, {floor}"
        case Difference.UNCONTROLLED:
            return f"only these runs differ, {floor}{few}"
        case Difference.TOO_FEW:
            return f"too few repeats to say, {floor}"


def margin_words(compared: CellComparison) -> str:
    """`+4.6% ±1.1%`: by how much the second of the two compared is faster; `none shown (-0% to +5%)` where the interval
    holds an equal speed."""
    ratio = compared.ratio
    if ratio is None:
        return NOTHING
    if ratio.low <= 1 <= ratio.high:
        return f"none shown ({ratio.low - 1:+.0%} to {ratio.high - 1:+.0%})"
    # An interval of a ratio is wider upwards: a ± would reach below nothing where its lower end does not.
    gain = ratio.mean - 1
    if ratio.half_width < abs(gain):
        return f"{_signed(gain)} ±{percent(ratio.half_width)}"
    return f"{_signed(ratio.low - 1)} to {_signed(ratio.high - 1)}"


def _signed(fraction: float) -> str:
    return f"{'+' if fraction >= 0 else '-'}{percent(abs(fraction))}"


def _cells(ranking: Ranking) -> tuple[str, ...]:
    if not ranking.places:
        return ("nothing to rank", *[NOTHING] * 4)
    first, second = ranking.places[0], ranking.runner_up
    head = (first.candidate.label, f"{first.mean_tok_s:.1f}")
    if second is None or second.against_first is None:
        return (*head, "nobody", NOTHING, NOTHING)
    compared = second.against_first
    return (*head, second.candidate.label, margin_words(compared), noise_words(compared))


def _level_note(ranking: Ranking, head: str) -> str | None:
    """Who else might be the fastest, beside the runner-up, whose row says so itself."""
    others = [place.candidate.label for place in ranking.level_with_first if place is not ranking.runner_up]
    if not others:
        return None
    return f"{head}: not told from {ranking.places[0].candidate.label} either: {', '.join(others)}"
