"""The answer in a sentence a host: which configuration to take for how many users, and whether the lead is real."""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.ranking import Ranking
from ddqueue.domain.statistics import Difference
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.numbers import listed

NAMES = (
    "Names: b16 t4 w2048 is a draft tree of 16 nodes (b), with the 4 likeliest tokens tried at each position (t) and a "
    "drafter that sees the last 2048 tokens (w; none: all of them); bs16 before it is a block of 16 tokens."
)


def advice(data: ReportData, host: str) -> str | None:
    """`rtx: take b16 t4 w2048 for one user; b4 t4 w2048 for 32 users. Every lead is more than noise.`

    None where nothing is ranked.
    """
    rankings = [ranking for ranking in data.judgement.rankings if ranking.host == host and ranking.places]
    if not rankings:
        return None
    winners = dict.fromkeys(ranking.places[0].candidate.label for ranking in rankings)
    taken = [f"{label} for {listed(_users(rankings, label))}" for label in winners]
    return f"{host}: take {'; '.join(taken)}. {_trust(data, rankings)}"


def _users(rankings: Sequence[Ranking], label: str) -> list[str]:
    """Every number of users that the configuration is the fastest for, with the contexts where it is not at all."""
    won = [ranking.point for ranking in rankings if ranking.places[0].candidate.label == label]
    said = []
    for concurrency in dict.fromkeys(point.concurrency for point in won):
        users = "one user" if concurrency == 1 else f"{concurrency} users"
        here = [point for point in won if point.concurrency == concurrency]
        if len(here) < sum(ranking.point.concurrency == concurrency for ranking in rankings):
            contexts = dict.fromkeys(f"{point.context:,}" for point in here)
            users += f" ({' or '.join(contexts)} tokens of context)"
        said.append(users)
    return said


def _trust(data: ReportData, rankings: Sequence[Ranking]) -> str:
    contested = [ranking for ranking in rankings if ranking.runner_up is not None]
    if not contested:
        return "Nothing else is ranked there."
    real = [data.heads[one.point] for one in contested if _verdict(one) is Difference.DIFFERENT]
    open_ones = [data.heads[one.point] for one in contested if _verdict(one) is not Difference.DIFFERENT]
    if not open_ones:
        return "Every lead is more than noise."
    if not real:
        return "No lead is shown to be more than noise: the runner-up may be as fast."
    return f"The lead is more than noise at {listed(real)}; at {listed(open_ones)} the runner-up may be as fast."


def _verdict(ranking: Ranking) -> Difference | None:
    second = ranking.runner_up
    return None if second is None or second.against_first is None else second.against_first.verdict
