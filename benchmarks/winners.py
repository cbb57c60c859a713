"""Whether two runs of one sweep name the same configurations as the fastest. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Ranking = Mapping[str, Any]
"""One host and point, of `ranking` in `ddqueue results --json`."""


class Agreement(StrEnum):
    """What to make of two winners at one point of one host, by ddqueue's own verdicts."""

    SAME = "the same"
    TIED = "tied within noise, in both runs"
    TIED_IN_ONE = "tied within noise, in one run"
    """The other run tells them apart, which of several points one run does by luck; the reader sees by how much."""
    DIFFERENT = "different"


@dataclass(frozen=True)
class Winners:
    """The fastest of each run at one point of one host. `behind` is by what fraction of its winner's speed the first
    run measured the second one's winner slower; None where it did not rank it."""

    host: str
    concurrency: int
    context: int
    output: int
    use: str | None
    first: str
    second: str
    agreement: Agreement
    behind: float | None


def held_together(first: Sequence[Ranking], second: Sequence[Ranking]) -> list[Winners]:
    """The winners of both runs, in the order of the first.

    Raises:
        ValueError: one of the runs ranks nothing at a host and point of the first.
    """
    others = {_key(ranking): ranking for ranking in second}
    found = []
    for ranking in first:
        other = others.get(_key(ranking))
        if other is None or not ranking["places"] or not other["places"]:
            raise ValueError(f"nothing to hold together at {_key(ranking)}")
        mine, theirs = (one["places"][0]["name"] for one in (ranking, other))
        speeds = {place["name"]: place["mean_tok_s"] for place in ranking["places"]}
        behind = 1 - speeds[theirs] / speeds[mine] if theirs in speeds else None
        found.append(Winners(*_key(ranking), ranking["use"], mine, theirs, _agreement(ranking, other), behind))
    return found


def _key(ranking: Ranking) -> tuple[str, int, int, int]:
    return (ranking["host"], ranking["concurrency"], ranking["context_tokens"], ranking["output_tokens_asked"])


def _agreement(first: Ranking, second: Ranking) -> Agreement:
    mine, theirs = (one["places"][0]["name"] for one in (first, second))
    if mine == theirs:
        return Agreement.SAME
    tied = [theirs in first["level_with_first"], mine in second["level_with_first"]]
    if all(tied):
        return Agreement.TIED
    return Agreement.TIED_IN_ONE if any(tied) else Agreement.DIFFERENT
