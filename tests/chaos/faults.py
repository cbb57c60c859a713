"""The kinds of fault, and the schedule that a seed deals."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    """What the nemesis can do. Killed is SIGKILL, stopped is SIGSTOP and later SIGCONT."""

    WORKER_KILLED = "worker-killed"
    WORKER_STOPPED = "worker-stopped"
    WORKER_RESTARTED = "worker-restarted"
    """SIGTERM in the middle of everything; started again when it has ended."""
    ATTEMPT_KILLED = "attempt-killed"
    """The worker's child that owns the host."""
    ATTEMPT_STOPPED = "attempt-stopped"
    DISPATCHER_KILLED = "dispatcher-killed"
    DISPATCHER_STOPPED = "dispatcher-stopped"
    SERVER_KILLED = "server-killed"
    """SGLang's parent process."""
    SERVER_STOPPED = "server-stopped"
    SCHEDULER_KILLED = "scheduler-killed"
    SCHEDULER_STOPPED = "scheduler-stopped"
    REDIS_KILLED = "redis-killed"
    """And started again a while later."""
    REDIS_WIPED = "redis-wiped"
    """FLUSHALL."""
    REDIS_STOPPED = "redis-stopped"
    REDIS_CUT = "redis-cut"
    """CLIENT KILL of every connection."""
    POSTGRES_RESTARTED = "postgres-restarted"
    """Immediate shutdown, as after a crash, and started again at once."""
    POSTGRES_STOPPED = "postgres-stopped"
    """Every process of it."""
    POSTGRES_CUT = "postgres-cut"
    """pg_terminate_backend of every connection but the harness's own."""
    DUPLICATES = "duplicate-wake-ups"
    DISK_FULL = "disk-full"
    """Under the servers' logs and the attempts' journals."""
    CLOCK_JUMPED = "clock-jumped"
    """The wall clock of workers, attempts, servers and dispatcher."""


@dataclass(frozen=True)
class Planned:
    """One fault to come: `pause_s` after the one before it, on the host with this number where it strikes one, for
    `for_s` seconds where it lasts. `jump_s` is what the wall clock jumps by. An attempt is struck at any moment of its
    life, or, `while_serving`, only while its server lives."""

    kind: FaultKind
    pause_s: float
    host: int
    for_s: float
    jump_s: float
    while_serving: bool


def schedule(
    seed: int, hosts: int, kinds: Sequence[FaultKind] = tuple(FaultKind), mean_pause_s: float = 2.0
) -> Iterator[Planned]:
    """Faults without end, the same for the same arguments.

    They are dealt like cards, deck after deck, so that no kind is left out by chance.
    """
    chance = random.Random(f"faults {seed}")
    while True:
        deck = list(kinds)
        chance.shuffle(deck)
        for kind in deck:
            yield Planned(
                kind=kind,
                pause_s=chance.uniform(0.25, 1.75) * mean_pause_s,
                host=chance.randrange(hosts),
                for_s=chance.uniform(1.0, 7.0),
                jump_s=chance.choice((-1, 1)) * chance.uniform(60.0, 7200.0),
                while_serving=chance.random() < 0.7,
            )
