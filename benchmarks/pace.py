"""How long one run of a sweep would have taken at the pace of another: a busier machine makes no sweep longer. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

Shown = Mapping[str, Any]
"""A job as `ddqueue show` has it, with its one attempt; or none, when it was given up before it began."""


def host_seconds(jobs: Sequence[Shown], pace: Sequence[Shown]) -> dict[str, float]:
    """By host, the time of `jobs` one after the other, had each repeat taken as long as the mean one of the same
    configuration and point in `pace`, and the rest of each job (start, warm-up, stop, what is ours) as long as the mean
    one of the same configuration there.

    `pace` holds every configuration and point of `jobs`; held against itself it gives its own time.
    """
    repeats: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    rests: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for job in _ran(pace):
        measured = list(_repeats(job))
        for point, duration_s in measured:
            repeats[*_cell(job), *point].append(duration_s)
        rests[_cell(job)].append(_whole_s(job) - sum(duration_s for _, duration_s in measured))
    found: dict[str, float] = defaultdict(float)
    for job in _ran(jobs):
        found[job["host"]] += fmean(rests[_cell(job)])
        found[job["host"]] += sum(fmean(repeats[*_cell(job), *point]) for point, _ in _repeats(job))
    return dict(found)


def _ran(jobs: Sequence[Shown]) -> Iterator[Shown]:
    return (job for job in jobs if job["attempts"])


def _cell(job: Shown) -> tuple[str, str]:
    return job["host"], job["label"]


def _whole_s(job: Shown) -> float:
    whole: float = (job["finished_at"] - job["attempts"][0]["started_at"]).total_seconds()
    return whole


def _repeats(job: Shown) -> Iterator[tuple[tuple[int, int, int], float]]:
    """Each repeat's point and the seconds of its phase; every repeat has one, in the order taken."""
    (attempt,) = job["attempts"]
    phases = [phase["duration_s"] for phase in attempt["phases"] if phase["name"] == "measure"]
    rows = sorted(attempt["measurements"], key=lambda row: row["started_at"])
    for row, duration_s in zip(rows, phases, strict=True):
        yield (row["concurrency"], row["context_tokens"], row["output_tokens_asked"]), duration_s
