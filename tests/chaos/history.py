"""The recorded history of a run: what was seen and said outside the queue, and the queue's tables at the end.

Times named `_s` count from boot; times named `_at` are Unix seconds, by the clock that Postgres goes by.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from .faults import FaultKind


@dataclass(frozen=True)
class Lifetime:
    """A server's process, as the watcher saw it: it surely ran from `began_s` to `last_alive_s`.

    `session` is its session leader's pid. Of a leader, `attempt_id` is the attempt in the tag of its command line,
    `runner` the pid of its parent when it was first seen, and `without_lock` whether it was ever seen without its
    host's lock file open.
    """

    host: str
    pid: int
    start_ticks: int
    session: int
    began_s: float
    last_alive_s: float
    attempt_id: int | None = None
    runner: int | None = None
    without_lock: bool = False


@dataclass(frozen=True)
class Ownership:
    """An attempt process that the lock file named while it had that file open; so from `began_s` to `last_seen_s`."""

    host: str
    pid: int
    start_ticks: int
    began_s: float
    last_seen_s: float


@dataclass(frozen=True)
class Journalled:
    """A repeat of a measurement that an attempt's journal held at some moment."""

    attempt_id: int
    repeat: int


@dataclass(frozen=True)
class Watched:
    """What the watcher saw; `longest_gap_s` is the longest time between two looks."""

    lifetimes: tuple[Lifetime, ...] = ()
    ownerships: tuple[Ownership, ...] = ()
    journalled: tuple[Journalled, ...] = ()
    longest_gap_s: float = 0.0


@dataclass(frozen=True)
class Command:
    """What a client asked and was told. `name` is the subcommand, `target` its sweep or job; a hung one has no code."""

    name: str
    target: str
    began_at: float
    ended_at: float
    exit_code: int | None
    output: str
    error: str
    options: tuple[str, ...] = ()


class Outcome(StrEnum):
    """What became of a planned fault."""

    HIT = "hit"
    MISSED = "missed"
    """There was nothing to hit within some seconds."""
    SKIPPED = "skipped"
    """This machine cannot do it."""


@dataclass(frozen=True)
class Strike:
    """A fault as it was carried out, from `at` to `until`; `proof` says what it hit, or why it did not."""

    kind: FaultKind
    host: str
    at: float
    until: float
    outcome: Outcome
    proof: str


@dataclass(frozen=True)
class StaleWrite:
    """A write with the fence of an attempt that has ended, through the product's own store. `answer` is `StaleFence` or
    `lost` when it was refused as it should be, `accepted`, or the error that came instead."""

    what: str
    attempt_id: int
    at: float
    answer: str


@dataclass(frozen=True)
class Tables:
    """The queue's tables at the end, rows as mappings; `committed_at` is the commit time of a row's last writer.

    `writes` has a row for each row of any table that belongs to an attempt, with `table` and `attempt_id`.
    """

    sweeps: tuple[Mapping[str, Any], ...] = ()
    jobs: tuple[Mapping[str, Any], ...] = ()
    attempts: tuple[Mapping[str, Any], ...] = ()
    events: tuple[Mapping[str, Any], ...] = ()
    measurements: tuple[Mapping[str, Any], ...] = ()
    writes: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class LeftOver:
    """What was still there when everything had been told to stop, or had ended otherwise than by itself."""

    servers: tuple[str, ...] = ()
    """Processes of servers when every job was final and the workers were idle."""
    gpus: tuple[str, ...] = ()
    """GPUs that were in use then."""
    strays: tuple[str, ...] = ()
    """Processes after the last worker and dispatcher had ended."""
    unwilling: tuple[str, ...] = ()
    """Workers and dispatchers that did not end by SIGTERM, or ended with a code."""


@dataclass(frozen=True)
class History:
    """Everything that the checker judges by. `repeats` is what each job was asked to measure of its one point."""

    repeats: int
    commands: tuple[Command, ...] = ()
    strikes: tuple[Strike, ...] = ()
    watched: Watched = field(default_factory=Watched)
    stale_writes: tuple[StaleWrite, ...] = ()
    tables: Tables = field(default_factory=Tables)
    left: LeftOver = field(default_factory=LeftOver)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1))


def load(path: Path) -> History:
    """What `History.save` wrote."""
    read = json.loads(path.read_text())
    watched = load_watched(read["watched"])
    strikes = (Strike(**(row | {"kind": FaultKind(row["kind"])})) for row in read["strikes"])
    return History(
        repeats=read["repeats"],
        commands=tuple(Command(**(row | {"options": tuple(row["options"])})) for row in read["commands"]),
        strikes=tuple(strikes),
        watched=watched,
        stale_writes=tuple(StaleWrite(**row) for row in read["stale_writes"]),
        tables=Tables(**{name: tuple(rows) for name, rows in read["tables"].items()}),
        left=LeftOver(**{name: tuple(rows) for name, rows in read["left"].items()}),
    )


def load_watched(read: Mapping[str, Any]) -> Watched:
    """Watched, from plain JSON values."""
    return Watched(
        tuple(Lifetime(**row) for row in read["lifetimes"]),
        tuple(Ownership(**row) for row in read["ownerships"]),
        tuple(Journalled(**row) for row in read["journalled"]),
        read["longest_gap_s"],
    )
