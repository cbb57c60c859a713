"""Whether the clients were told the truth, and in plain words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .check_jobs import FINAL
from .faults import FaultKind
from .history import Command, Strike, Tables
from .violation import Promise, Violation

_DONE, _USAGE, _NOT_REACHABLE = 0, 2, 3
_NEVER = float("inf")
_ON_ITS_WAY_S = 1.0
"""A claim may be under way when a pause is acknowledged: it looked before, and commits a moment later."""

_CANCELLED = re.compile(r"([0-9]+) jobs cancelled, ([0-9]+) running ones asked to stop")


def check_clients(commands: Sequence[Command], tables: Tables, strikes: Sequence[Strike]) -> Iterator[Violation]:
    yield from _check_words(commands)
    yield from _check_submitted(commands, tables)
    yield from _check_cancelled(commands, tables)
    yield from _check_paused(commands, tables, strikes)
    yield from _check_held(commands, tables, strikes)
    yield from _check_after(commands, tables)


def acknowledged_jobs(commands: Sequence[Command], tables: Tables) -> list[Mapping[str, Any]]:
    """The jobs of every sweep whose submission was acknowledged, as far as the tables have them."""
    names = {_sweep(command) for command in commands if _is_done(command, "submit")}
    sweeps = {row["id"] for row in tables.sweeps if (row["name"], row["revision"]) in names}
    return [row for row in tables.jobs if row["sweep_id"] in sweeps]


def acknowledged_count(commands: Sequence[Command]) -> int:
    """How many jobs the clients were told are queued."""
    return sum(json.loads(command.output)["jobs"] for command in commands if _is_done(command, "submit"))


def _check_words(commands: Sequence[Command]) -> Iterator[Violation]:
    for command in commands:
        said = f"`{command.name} {command.target}`"
        if command.exit_code is None:
            yield Violation(
                Promise.PLAIN_WORDS, f"{said} gave no answer in {command.ended_at - command.began_at:.0f} s"
            )
        elif command.exit_code not in (_DONE, _USAGE, _NOT_REACHABLE):
            last = (command.error.strip().splitlines() or [""])[-1]
            yield Violation(Promise.PLAIN_WORDS, f"{said} ended with {command.exit_code}: {last}")
        elif "Traceback" in command.error:
            yield Violation(Promise.PLAIN_WORDS, f"{said} printed a traceback")
        elif command.exit_code == _NOT_REACHABLE and len(command.error.strip().splitlines()) != 1:
            yield Violation(Promise.PLAIN_WORDS, f"{said} needed more than one line: {command.error!r}")


def _check_submitted(commands: Sequence[Command], tables: Tables) -> Iterator[Violation]:
    sweeps = {(row["name"], row["revision"]): row["id"] for row in tables.sweeps}
    for command in commands:
        if not _is_done(command, "submit"):
            continue
        name, revision = _sweep(command)
        told = json.loads(command.output)["jobs"]
        stored = sum(1 for row in tables.jobs if row["sweep_id"] == sweeps.get((name, revision)))
        if stored != told:
            text = f"{name}@{revision} was acknowledged with {told} jobs, the tables have {stored}"
            yield Violation(Promise.NOTHING_LOST, text)


def _check_cancelled(commands: Sequence[Command], tables: Tables) -> Iterator[Violation]:
    """A job that was cancelled is not claimed any more, unless somebody retries it."""
    sweeps = {row["id"]: f"{row['name']}@{row['revision']}" for row in tables.sweeps}
    for command in commands:
        told = _CANCELLED.search(command.output) if _is_done(command, "cancel") else None
        if told is None:
            continue
        ended, asked = int(told[1]), int(told[2])
        for job in tables.jobs:
            sweep = sweeps[job["sweep_id"]]
            if command.target not in (sweep, str(job["id"])):
                continue
            retried_at = _next(commands, "retry", sweep, command)
            late = _claims(tables, "job_id", job["id"], command.ended_at, retried_at)
            if late and (ended or asked):
                text = f"job {job['id']} was cancelled, and then claimed as attempt {late[0]['attempt_id']}"
                yield Violation(Promise.NOTHING_LOST, text)
            if command.target != sweep and ended and retried_at == _NEVER and job["state"] != "cancelled":
                yield Violation(Promise.NOTHING_LOST, f"job {job['id']} was cancelled, and is {job['state']}")


def _check_paused(commands: Sequence[Command], tables: Tables, strikes: Sequence[Strike]) -> Iterator[Violation]:
    """No job of a paused sweep starts. A claim that was on its way may commit a moment later; or, when the attempt or
    Postgres was stopped in the middle of it, when that goes on."""
    sweeps = {f"{row['name']}@{row['revision']}": row["id"] for row in tables.sweeps}
    for command in commands:
        if not _is_done(command, "pause") or command.target not in sweeps:
            continue
        resumed_at = _next(commands, "resume", command.target, command)
        paused_at = command.ended_at + _ON_ITS_WAY_S
        for row in _claims(tables, "sweep_id", sweeps[command.target], paused_at, resumed_at):
            if not _was_stopped(strikes, command.ended_at, row["committed_at"]):
                text = f"{command.target} was paused, and attempt {row['attempt_id']} was claimed"
                yield Violation(Promise.NOTHING_LOST, text)


def _check_held(commands: Sequence[Command], tables: Tables, strikes: Sequence[Strike]) -> Iterator[Violation]:
    """No job starts on a held host; claims on their way are passed over, as above."""
    for command in commands:
        if not _is_done(command, "hold"):
            continue
        released_at = _next(commands, "release", command.target, command)
        for row in _claims(tables, "host", command.target, command.ended_at + _ON_ITS_WAY_S, released_at):
            if not _was_stopped(strikes, command.ended_at, row["committed_at"]):
                text = f"{command.target} was held, and attempt {row['attempt_id']} was claimed"
                yield Violation(Promise.NOTHING_LOST, text)


def _check_after(commands: Sequence[Command], tables: Tables) -> Iterator[Violation]:
    """A sweep that waits for another starts when each job of the other has ended. Where somebody retried the other, it
    may be open again by then."""
    sweeps = {f"{row['name']}@{row['revision']}": row["id"] for row in tables.sweeps}
    for command in commands:
        if not _is_done(command, "submit") or "--after" not in command.options:
            continue
        name, revision = _sweep(command)
        other = command.options[command.options.index("--after") + 1]
        sweep_id, other_id = sweeps.get(f"{name}@{revision}"), sweeps.get(other)
        if sweep_id is None or other_id is None or any((it.name, it.target) == ("retry", other) for it in commands):
            continue
        ended = {row["job_id"]: row["committed_at"] for row in tables.events if _ends(row, other_id)}
        last = max((ended.get(row["id"], _NEVER) for row in tables.jobs if row["sweep_id"] == other_id), default=0.0)
        for row in _claims(tables, "sweep_id", sweep_id, 0.0, last):
            text = f"{name}@{revision} waits for {other}, and attempt {row['attempt_id']} was claimed before its end"
            yield Violation(Promise.NOTHING_LOST, text)


def _ends(event: Mapping[str, Any], sweep_id: int) -> bool:
    """Whether the event ends a job of the sweep."""
    if event["sweep_id"] != sweep_id or event["job_id"] is None:
        return False
    return event["kind"] == "cancelled" or event["detail"].get("state") in FINAL


def _next(commands: Sequence[Command], name: str, target: str, after: Command) -> float:
    """When the first such command began that may have taken effect after the other; _NEVER when there is none."""
    began = (it.began_at for it in commands if (it.name, it.target) == (name, target) and it.ended_at > after.began_at)
    return min(began, default=_NEVER)


def _claims(tables: Tables, column: str, value: int | str, since: float, until: float) -> list[Mapping[str, Any]]:
    return [
        row
        for row in tables.events
        if row["kind"] == "claimed" and row[column] == value and since < row["committed_at"] < until
    ]


def _was_stopped(strikes: Sequence[Strike], since: float, until: float) -> bool:
    """Whether something that claims was stopped when that was acknowledged, and went on before the claim."""
    stops = (FaultKind.ATTEMPT_STOPPED, FaultKind.POSTGRES_STOPPED)
    return any(
        strike.kind in stops and strike.at < since and strike.until <= until + _ON_ITS_WAY_S for strike in strikes
    )


def _is_done(command: Command, name: str) -> bool:
    return command.name == name and command.exit_code == _DONE


def _sweep(command: Command) -> tuple[str, int]:
    told = json.loads(command.output)
    return told["sweep"], told["revision"]
