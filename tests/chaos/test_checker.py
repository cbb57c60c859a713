"""The checker on histories made by hand: a good one has no violation, and each spoilt one has exactly its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from .checker import check
from .faults import FaultKind, schedule
from .history import (
    Command,
    History,
    Journalled,
    LeftOver,
    Lifetime,
    Outcome,
    Ownership,
    StaleWrite,
    Strike,
    Tables,
    Watched,
    load,
)
from .script import Hold, Pause, Release, Resume, Submit, script
from .violation import Promise

HOST = "chaos-1"
SUBMITTED = json.dumps({"sweep": "s", "revision": 1, "sweep_id": 1, "jobs": 2})


def event(number: int, kind: str, job: int | None, attempt: int | None, at: float, **detail: Any) -> dict[str, Any]:
    return {
        "id": number,
        "kind": kind,
        "sweep_id": 1,
        "job_id": job,
        "attempt_id": attempt,
        "host": HOST,
        "detail": detail,
        "committed_at": at,
    }


def attempt(number: int, job: int, count: int, outcome: str, runner: int) -> dict[str, Any]:
    return {
        "id": number,
        "job_id": job,
        "number": count,
        "fence": number * 10,
        "host": HOST,
        "outcome": outcome,
        "failure": None,
        "evidence": None,
        "runner_pid": runner,
    }


def server(pid: int, attempt_id: int, runner: int, began_s: float, last_alive_s: float) -> tuple[Lifetime, Lifetime]:
    """A server's parent and its scheduler."""
    parent = Lifetime(HOST, pid, pid, pid, began_s, last_alive_s, attempt_id, runner)
    return parent, Lifetime(HOST, pid + 1, pid + 1, pid, began_s + 0.1, last_alive_s)


def command(name: str, target: str, began_at: float, output: str, code: int | None = 0, error: str = "") -> Command:
    return Command(name, target, began_at, began_at + 0.5, code, output, error)


GOOD = History(
    repeats=3,
    commands=(
        command("submit", "/run/s.yaml", 99.0, SUBMITTED),
        command("submit", "/run/lost.yaml", 99.0, "", 3, "Postgres at 127.0.0.1 did not answer: refused\n"),
        command("cancel", "2", 150.0, "1 jobs cancelled, 0 running ones asked to stop\n"),
        command("pause", "s@1", 160.0, "s@1 is paused\n"),
        command("resume", "s@1", 170.0, "s@1 goes on\n"),
    ),
    strikes=(Strike(FaultKind.ATTEMPT_KILLED, HOST, 110.0, 110.0, Outcome.HIT, "attempt process 100 killed"),),
    watched=Watched(
        (*server(200, 1, 100, 3.0, 10.0), *server(300, 2, 101, 13.0, 20.0)),
        (Ownership(HOST, 100, 100, 2.0, 9.0), Ownership(HOST, 101, 101, 12.0, 21.0)),
        (Journalled(2, 1), Journalled(2, 2)),
        0.05,
    ),
    stale_writes=(StaleWrite("record_phase", 1, 115.0, "StaleFence"), StaleWrite("heartbeat", 1, 115.0, "lost")),
    tables=Tables(
        sweeps=({"id": 1, "name": "s", "revision": 1},),
        jobs=(
            {"id": 1, "sweep_id": 1, "host": HOST, "state": "succeeded", "tries": 1, "failure": None},
            {"id": 2, "sweep_id": 1, "host": HOST, "state": "cancelled", "tries": 0, "failure": None},
        ),
        attempts=(attempt(1, 1, 1, "lost", 100), attempt(2, 1, 2, "succeeded", 101)),
        events=(
            event(1, "submitted", None, None, 99.2),
            event(2, "claimed", 1, 1, 102.0),
            event(3, "lost", 1, 1, 112.0, state="queued"),
            event(4, "claimed", 1, 2, 112.1),
            event(5, "finished", 1, 2, 121.0, state="succeeded"),
            event(6, "cancelled", 2, None, 150.2),
        ),
        measurements=tuple({"attempt_id": 2, "repeat": repeat} for repeat in (1, 2, 3)),
        writes=(
            {"table": "phases", "attempt_id": 1, "committed_at": 103.0},
            {"table": "phases", "attempt_id": 2, "committed_at": 121.0},
        ),
    ),
)


def edited(rows: tuple[Mapping[str, Any], ...], place: int, **values: Any) -> tuple[Mapping[str, Any], ...]:
    return (*rows[:place], {**rows[place], **values}, *rows[place + 1 :])


def with_tables(**tables: Any) -> History:
    return replace(GOOD, tables=replace(GOOD.tables, **tables))


def with_watched(**watched: Any) -> History:
    return replace(GOOD, watched=replace(GOOD.watched, **watched))


def with_command(*more: Command) -> History:
    return replace(GOOD, commands=(*GOOD.commands, *more))


def with_other_sweep(claimed_at: float) -> History:
    """A second sweep of one job on another host, submitted to start after the first, whose last job ends at 150.2."""
    told = SUBMITTED.replace('"s"', '"t"').replace('"jobs": 2', '"jobs": 1')
    submit = replace(command("submit", "/run/t.yaml", 99.0, told), options=("--json", "--after", "s@1"))
    elsewhere = {"sweep_id": 2, "host": "chaos-2"}
    return replace(
        GOOD,
        commands=(*GOOD.commands, submit),
        tables=replace(
            GOOD.tables,
            sweeps=(*GOOD.tables.sweeps, {"id": 2, "name": "t", "revision": 1}),
            jobs=(*GOOD.tables.jobs, {**GOOD.tables.jobs[0], **elsewhere, "id": 3, "state": "failed"}),
            attempts=(*GOOD.tables.attempts, attempt(3, 3, 1, "failed", 102) | {"host": "chaos-2"}),
            events=(
                *GOOD.tables.events,
                event(7, "claimed", 3, 3, claimed_at) | elsewhere,
                event(8, "finished", 3, 3, 200.0, state="failed") | elsewhere,
            ),
        ),
    )


JOBS, ATTEMPTS, EVENTS = GOOD.tables.jobs, GOOD.tables.attempts, GOOD.tables.events
LIFETIMES, OWNERSHIPS = GOOD.watched.lifetimes, GOOD.watched.ownerships

SPOILT: dict[str, tuple[Callable[[], History], Promise]] = {
    "two attempts own the host": (
        lambda: with_watched(ownerships=(replace(OWNERSHIPS[0], last_seen_s=12.5), OWNERSHIPS[1])),
        Promise.ONE_OWNER,
    ),
    "the host was taken while the last one's server lived": (
        lambda: with_watched(lifetimes=(replace(LIFETIMES[0], last_alive_s=12.5), *LIFETIMES[1:])),
        Promise.ONE_OWNER,
    ),
    "a scheduler outlived its parent into the next attempt": (
        lambda: with_watched(lifetimes=(LIFETIMES[0], replace(LIFETIMES[1], last_alive_s=12.5), *LIFETIMES[2:])),
        Promise.ONE_OWNER,
    ),
    "two servers at once": (
        lambda: with_watched(
            lifetimes=(replace(LIFETIMES[0], last_alive_s=13.5), *LIFETIMES[1:]), ownerships=OWNERSHIPS[:1]
        ),
        Promise.ONE_SERVER,
    ),
    "claimed before the last attempt had ended": (
        lambda: with_tables(events=edited(EVENTS, 3, committed_at=111.9)),
        Promise.ONE_OWNER,
    ),
    "a server without the lock": (
        lambda: with_watched(lifetimes=(replace(LIFETIMES[0], without_lock=True), *LIFETIMES[1:])),
        Promise.LOCK_KEPT,
    ),
    "a job still runs": (
        lambda: with_tables(
            sweeps=(*GOOD.tables.sweeps, {"id": 9, "name": "unanswered", "revision": 1}),
            jobs=(*JOBS, {**JOBS[1], "id": 3, "sweep_id": 9, "state": "queued"}),
        ),
        Promise.FINAL_ONCE,
    ),
    "two ends of one attempt": (
        lambda: with_tables(events=(*EVENTS, event(7, "finished", 1, 2, 121.0, state="succeeded"))),
        Promise.FINAL_ONCE,
    ),
    "an end that the table does not show": (
        lambda: with_tables(events=edited(EVENTS, 4, detail={"state": "queued"})),
        Promise.FINAL_ONCE,
    ),
    "an attempt without an end": (
        lambda: with_tables(
            attempts=(*ATTEMPTS, attempt(3, 9, 1, "failed", 102)), events=(*EVENTS, event(7, "claimed", 9, 3, 130.0))
        ),
        Promise.FINAL_ONCE,
    ),
    "two accepted attempts": (
        lambda: with_tables(attempts=edited(ATTEMPTS, 0, outcome="succeeded")),
        Promise.ACCEPTED_ONCE,
    ),
    "an accepted attempt of a cancelled job": (
        lambda: with_tables(attempts=(*ATTEMPTS, attempt(3, 2, 1, "succeeded", 102)), events=(
            *EVENTS[:5],
            event(7, "claimed", 2, 3, 122.0),
            event(8, "finished", 2, 3, 123.0, state="queued"),
            event(9, "cancelled", 2, None, 150.2),
        )),
        Promise.ACCEPTED_ONCE,
    ),
    "a success with a repeat missing": (
        lambda: with_tables(measurements=GOOD.tables.measurements[:2]),
        Promise.ACCEPTED_ONCE,
    ),
    "a stale write was accepted": (
        lambda: replace(GOOD, stale_writes=(StaleWrite("record_phase", 1, 115.0, "accepted"),)),
        Promise.FENCED,
    ),
    "a stale write failed by accident": (
        lambda: replace(GOOD, stale_writes=(StaleWrite("finish", 1, 115.0, "IntegrityError: moves"),)),
        Promise.FENCED,
    ),
    "a row after the attempt's end": (
        lambda: with_tables(writes=edited(GOOD.tables.writes, 0, committed_at=112.001)),
        Promise.FENCED,
    ),
    "a row before the attempt's claim": (
        lambda: with_tables(writes=edited(GOOD.tables.writes, 0, committed_at=101.9)),
        Promise.FENCED,
    ),
    "a fence that did not grow": (
        lambda: with_tables(attempts=edited(ATTEMPTS, 1, fence=10)),
        Promise.FENCED,
    ),
    "a measured repeat was lost with its attempt": (
        lambda: with_watched(journalled=(*GOOD.watched.journalled, Journalled(1, 2))),
        Promise.MEASURED_STORED,
    ),
    "a lost sweep": (
        lambda: with_command(command("submit", "/run/t.yaml", 120.0, SUBMITTED.replace('"s"', '"t"'))),
        Promise.NOTHING_LOST,
    ),
    "a lost job": (
        lambda: with_tables(jobs=JOBS[:1], events=EVENTS[:5]),
        Promise.NOTHING_LOST,
    ),
    "a cancelled job was claimed": (
        lambda: replace(GOOD, commands=(
            GOOD.commands[0], command("cancel", "1", 105.0, "0 jobs cancelled, 1 running ones asked to stop")
        )),
        Promise.NOTHING_LOST,
    ),
    "a paused sweep went on": (
        lambda: replace(GOOD, commands=(GOOD.commands[0], command("pause", "s@1", 110.0, "s@1 is paused\n"))),
        Promise.NOTHING_LOST,
    ),
    "a job started on a held host": (
        lambda: with_command(command("hold", HOST, 110.0, "held\n"), command("release", HOST, 130.0, "works again\n")),
        Promise.NOTHING_LOST,
    ),
    "a sweep did not wait for the other": (
        lambda: with_other_sweep(120.0),
        Promise.NOTHING_LOST,
    ),
    "a client met a traceback": (
        lambda: with_command(command("retry", "s@1", 180.0, "", 1, "Traceback (most recent call last):\nKeyError")),
        Promise.PLAIN_WORDS,
    ),
    "a client got no answer": (
        lambda: with_command(command("retry", "s@1", 180.0, "", None)),
        Promise.PLAIN_WORDS,
    ),
    "a server was left": (
        lambda: replace(GOOD, left=LeftOver(servers=("pid 300",))),
        Promise.SERVERS_END,
    ),
    "a GPU is in use": (
        lambda: replace(GOOD, left=LeftOver(gpus=("chaos-1: GPU 0 has 100 MiB in use by []",))),
        Promise.GPUS_IDLE,
    ),
    "a process was left": (
        lambda: replace(GOOD, left=LeftOver(strays=("pid 9",))),
        Promise.NO_STRAYS,
    ),
    "a worker did not end": (
        lambda: replace(GOOD, left=LeftOver(unwilling=("worker chaos-1 did not end",))),
        Promise.NO_STRAYS,
    ),
}  # fmt: skip


def test_a_good_history_breaks_no_promise() -> None:
    assert check(GOOD) == []


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_history_breaks_its_promise(name: str) -> None:
    spoil, promise = SPOILT[name]
    assert {violation.promise for violation in check(spoil())} == {promise}


def test_every_promise_can_be_broken() -> None:
    assert {promise for _, promise in SPOILT.values()} == set(Promise)


def test_a_retry_takes_a_cancellation_back() -> None:
    cancel = command("cancel", "1", 105.0, "0 jobs cancelled, 1 running ones asked to stop")
    retry = command("retry", "s@1", 107.0, "1 jobs queued again\n")
    assert check(replace(GOOD, commands=(GOOD.commands[0], cancel, retry))) == []


def test_a_claim_on_its_way_through_a_stop_is_not_held_against_a_pause() -> None:
    stop = Strike(FaultKind.ATTEMPT_STOPPED, HOST, 109.0, 112.0, Outcome.HIT, "attempt process 101 stopped")
    pause = command("pause", "s@1", 110.0, "s@1 is paused\n")
    assert check(replace(GOOD, commands=(GOOD.commands[0], pause), strikes=(stop,))) == []


def test_a_sweep_may_start_when_the_other_has_ended() -> None:
    assert check(with_other_sweep(150.3)) == []


def test_a_history_survives_its_file(tmp_path: Path) -> None:
    GOOD.save(tmp_path / "history.json")
    assert load(tmp_path / "history.json") == GOOD


def test_a_session_whose_number_came_again_is_another_server() -> None:
    again = server(200, 2, 101, 13.0, 20.0)
    lifetimes = (*LIFETIMES[:2], *(replace(it, start_ticks=it.start_ticks + 5) for it in again))
    assert check(with_watched(lifetimes=lifetimes)) == []


def test_the_schedule_is_the_seeds() -> None:
    deals = [[planned for planned, _ in zip(schedule(seed, 2), range(100), strict=False)] for seed in (7, 7, 8)]
    assert deals[0] == deals[1] != deals[2]
    kinds = len(FaultKind)
    assert {planned.kind for planned in deals[0][:kinds]} == set(FaultKind), "one deck has every kind"


@pytest.mark.parametrize("jobs", [1, 12, 60])
def test_the_script_submits_exactly_the_jobs_and_opens_what_it_shuts(jobs: int) -> None:
    steps = [timed.step for timed in script(7, jobs, ["a", "b"])]
    assert steps == [timed.step for timed in script(7, jobs, ["a", "b"])]
    assert sum(step.jobs for step in steps if isinstance(step, Submit)) == jobs
    shut: set[str] = set()
    for step in steps:
        match step:
            case Pause(name) | Hold(name):
                shut.add(name)
            case Resume(name) | Release(name):
                shut.discard(name)
    assert shut == set()
