"""Rows of the view `results`, one a visit, as one row a configuration. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import Any

from ddqueue.domain.states import JobState
from ddqueue.domain.sweep import Point
from ddqueue.report.coding import pooled_coding

Row = Mapping[str, Any]

_WITHOUT_NUMBERS = (
    *(JobState.FAILED, JobState.UNSUPPORTED, JobState.PRUNED),  # says why there are none
    *(JobState.RUNNING, JobState.QUEUED, JobState.CANCELLED),
)


def pooled(rows: Sequence[Row]) -> list[Row]:
    """One row a configuration on each host and parallelism, in the order of the sweep's file.

    Its points hold the repeats of all visits that succeeded: `values_tok_s` together and `visits_tok_s` visit by visit.
    Without any such visit it has the state and failure of the one that says most. `visits` tells how many there are and
    how many gave numbers. A configuration with one visit keeps its row.
    """
    servers = list(dict.fromkeys((row["host"], row["parallel"]) for row in rows))
    return sorted(
        (_pooled(group) for group in grouped(rows).values()),
        key=lambda row: (servers.index((row["host"], row["parallel"])), row["cell_position"]),
    )


def grouped(rows: Sequence[Row]) -> dict[tuple[str, str, str], list[Row]]:
    """The visits of each configuration, by host, parallelism and the configuration's hash, in the order given."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["host"], row["parallel"], row["cell_hash"]), []).append(row)
    return groups


def measured(row: Row, point: Point) -> Mapping[str, Any] | None:
    """The row's element of `points` for one point; None where nothing was accepted."""
    for found in row["points"] or ():
        if (found["concurrency"], found["context_tokens"], found["output_tokens_asked"]) == (
            point.concurrency,
            point.context,
            point.output,
        ):
            return dict(found)
    return None


def visit_caveats(visits: Sequence[Row]) -> tuple[str, ...]:
    """What became of the other visits of a configuration of which at least one gave numbers: `1 of 3 visits failed:
    OOM_RUN`, `2 of 3 visits are still to come`."""
    states = [JobState(row["state"]) for row in visits]
    if JobState.SUCCEEDED not in states or set(states) == {JobState.SUCCEEDED}:
        return ()
    failures = dict.fromkeys(str(row["failure"]) for row in visits if row["failure"])
    failed = sum(state in (JobState.FAILED, JobState.UNSUPPORTED) for state in states)
    open_ones = sum(state in (JobState.QUEUED, JobState.RUNNING) for state in states)
    cancelled, pruned = states.count(JobState.CANCELLED), states.count(JobState.PRUNED)
    of = f"of {len(visits)} visits"
    said = (
        (failed, f"{failed} {of} failed: {', '.join(failures)}"),
        (cancelled, f"{cancelled} {of} {'was' if cancelled == 1 else 'were'} cancelled"),
        (pruned, f"{pruned} {of} {'was' if pruned == 1 else 'were'} given up: others are faster everywhere"),
        (open_ones, f"{open_ones} {of} {'is' if open_ones == 1 else 'are'} still to come"),
    )
    return tuple(words for number, words in said if number)


def _pooled(group: Sequence[Row]) -> Row:
    visits = sorted(group, key=lambda row: row["visit"])
    measured = [row for row in visits if row["state"] == JobState.SUCCEEDED]
    if len(visits) == 1:
        return {**visits[0], "visits": _said(visits, measured)}
    if not measured:
        telling = min(visits, key=lambda row: _WITHOUT_NUMBERS.index(JobState(row["state"])))
        return {**telling, "visits": _said(visits, measured)}
    points = _points(measured)
    return {
        **measured[0],
        "points": points,
        "acceptance_length": _acceptance_length(measured),
        "coding": pooled_coding(measured),
        "simulated": any(row["simulated"] for row in measured),
        "visits": _said(visits, measured),
    }


def _said(visits: Sequence[Row], measured: Sequence[Row]) -> str:
    """`2/3`, and the classes of those that failed beside numbers."""
    failures = dict.fromkeys(str(row["failure"]) for row in visits if row["failure"]) if measured else {}
    return f"{len(measured)}/{len(visits)}" + (f" ({', '.join(failures)})" if failures else "")


def _points(measured: Sequence[Row]) -> list[dict[str, Any]]:
    shape = ("concurrency", "context_tokens", "output_tokens_asked")
    groups: dict[tuple[int, ...], list[Row]] = {}
    for point in chain.from_iterable(row["points"] or () for row in measured):
        groups.setdefault(tuple(point[name] for name in shape), []).append(point)
    pooled_points = []
    for key, points in groups.items():
        values = list(chain.from_iterable(point["values_tok_s"] for point in points))
        pooled_points.append(
            {
                **dict(zip(shape, key, strict=True)),
                "n": sum(point["n"] for point in points),
                "n_invalid": sum(point["n_invalid"] for point in points),
                "mean_tok_s": fmean(values) if values else None,
                "values_tok_s": values,
                "visits_tok_s": [point["values_tok_s"] for point in points],
                "goodput_requests_s": _mean(points, "goodput_requests_s"),
                "goodput_output_tok_s": _mean(points, "goodput_output_tok_s"),
            }
        )
    return pooled_points


def _mean(points: Sequence[Row], name: str) -> float | None:
    known = [point[name] for point in points if point.get(name) is not None]
    return fmean(known) if known else None


def _acceptance_length(measured: Sequence[Row]) -> float | None:
    """1 + sum(correct drafts) / sum(verifies) over all visits, tokens per verify; never a mean of means."""
    points = [point for row in measured for point in row["points"] or () if point["verifies"]]
    verifies = sum(point["verifies"] for point in points)
    return 1 + sum(point["correct_drafts"] or 0 for point in points) / verifies if verifies else None
