"""The jobs' lives, told by their events, and what became of them in the tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .history import Journalled, Tables
from .violation import Promise, Violation

FINAL = frozenset({"succeeded", "failed", "unsupported", "cancelled"})


def check_jobs(tables: Tables, repeats: int) -> Iterator[Violation]:
    """`repeats` is what an accepted job must have measured."""
    attempts: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in tables.attempts:
        attempts[row["job_id"]].append(row)
    measured: dict[int, set[int]] = defaultdict(set)
    for row in tables.measurements:
        measured[row["attempt_id"]].add(row["repeat"])
    for job in tables.jobs:
        if job["state"] not in FINAL:
            yield Violation(Promise.FINAL_ONCE, f"job {job['id']} is {job['state']} after the calm")
        yield from _check_accepted(job, attempts[job["id"]], measured, repeats)
    yield from _check_lives(tables)
    yield from _check_ends(tables)


def check_journals(journalled: Sequence[Journalled], tables: Tables) -> Iterator[Violation]:
    """Whoever recovers a host delivers what the dead have left before it requeues their jobs, so that no job can have
    ended without it."""
    stored = {(row["attempt_id"], row["repeat"]) for row in tables.measurements}
    for one in journalled:
        if (one.attempt_id, one.repeat) not in stored:
            text = f"repeat {one.repeat} of attempt {one.attempt_id} was in its journal, and is nowhere else"
            yield Violation(Promise.MEASURED_STORED, text)


def _check_accepted(
    job: Mapping[str, Any], attempts: list[Mapping[str, Any]], measured: Mapping[int, set[int]], repeats: int
) -> Iterator[Violation]:
    """An accepted attempt has every repeat, measured by itself or carried over from earlier ones."""
    accepted = [row["id"] for row in attempts if row["outcome"] == "succeeded"]
    wanted = 1 if job["state"] == "succeeded" else 0
    if len(accepted) != wanted:
        text = f"job {job['id']} is {job['state']} with {len(accepted)} accepted attempts {accepted}"
        yield Violation(Promise.ACCEPTED_ONCE, text)
    elif wanted and len(measured.get(accepted[0], ())) < repeats:
        text = f"job {job['id']} succeeded with {len(measured.get(accepted[0], ()))} of {repeats} repeats"
        yield Violation(Promise.ACCEPTED_ONCE, text)


def _check_lives(tables: Tables) -> Iterator[Violation]:
    """Each event must be possible where the ones before it have left the job, and the last must fit the table."""
    lives: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in sorted(tables.events, key=lambda row: int(row["id"])):
        if row["job_id"] is not None:
            lives[row["job_id"]].append(row)
    for job in tables.jobs:
        state = "queued"
        for event in lives[job["id"]]:
            after = _after(event, state)
            if after is None:
                text = f"job {job['id']} was {state} when its event {event['id']} says {event['kind']}"
                yield Violation(Promise.FINAL_ONCE, text)
                break
            state = after
        else:
            if state != job["state"]:
                text = f"job {job['id']} is {job['state']}, but its events end in {state}"
                yield Violation(Promise.FINAL_ONCE, text)


def _after(event: Mapping[str, Any], state: str) -> str | None:
    """The job's state after the event; None when it cannot happen in `state`."""
    match event["kind"]:
        case "claimed":
            return "running" if state == "queued" else None
        case "finished" | "lost":
            return str(event["detail"]["state"]) if state == "running" else None
        case "cancelled":
            return "cancelled" if state == "queued" else None
        case "retried":
            return "queued" if state in FINAL - {"succeeded"} else None
        case _:
            return state


def _check_ends(tables: Tables) -> Iterator[Violation]:
    """Each attempt was claimed once and ended once, with fences that grow from one attempt of a job to the next."""
    claims = Counter(row["attempt_id"] for row in tables.events if row["kind"] == "claimed")
    ends = Counter(row["attempt_id"] for row in tables.events if row["kind"] in ("finished", "lost"))
    fences: dict[int, int] = {}
    for row in sorted(tables.attempts, key=lambda row: (row["job_id"], row["number"])):
        name = f"attempt {row['id']} of job {row['job_id']}"
        if claims[row["id"]] != 1 or ends[row["id"]] != 1:
            text = f"{name} was claimed {claims[row['id']]} times and ended {ends[row['id']]} times"
            yield Violation(Promise.FINAL_ONCE, text)
        if row["fence"] <= fences.get(row["job_id"], 0):
            yield Violation(Promise.FENCED, f"{name} has fence {row['fence']}, not above the one before it")
        fences[row["job_id"]] = row["fence"]
