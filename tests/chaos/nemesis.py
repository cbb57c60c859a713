"""Carries out the schedule: finds what to hit, hits it, proves it, and mends it later.

It never waits: `tick` does what is due and returns, so that several faults may last at once. Everything here runs in
the main thread, whose children the servers are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg
import redis

from . import strikes
from .faults import FaultKind, Planned
from .history import Outcome, Strike
from .strikes import Hit, NoTarget, Skipped
from .world import World

TARGET_WAIT_S = 5.0
"""A fault that finds nothing to hit, because no host is at that point just now, waits so long for it."""


@dataclass
class _Pending:
    planned: Planned
    due_s: float
    tried: int = 0
    """How often there was nothing to hit; each time another host is tried."""


@dataclass(frozen=True)
class _Lasting:
    """A fault that is to be mended at `due_s`."""

    due_s: float
    mend: Callable[[], None]


class Nemesis:
    """`strikes` is what it has done so far."""

    def __init__(self, world: World, schedule: Iterator[Planned]) -> None:
        self._world = world
        self._schedule = schedule
        self._pending: _Pending | None = None
        self._lasting: list[_Lasting] = []
        self.strikes: list[Strike] = []

    def tick(self) -> None:
        """Mend what is due, and strike if it is time."""
        now_s = time.monotonic()
        for lasting in [lasting for lasting in self._lasting if lasting.due_s <= now_s]:
            self._lasting.remove(lasting)
            lasting.mend()
        if self._pending is None:
            planned = next(self._schedule)
            self._pending = _Pending(planned, now_s + planned.pause_s)
        if now_s >= self._pending.due_s and self._strike(self._pending):
            self._pending = None

    def heal(self) -> None:
        """Mend everything, now."""
        self._pending = None
        for lasting in self._lasting:
            lasting.mend()
        self._lasting.clear()
        for process in self._world.ours():
            strikes.go_on(process)
        for server in (self._world.postgres, self._world.redis):
            server.go_on()
            if server.pid is None:
                server.start()

    def _strike(self, pending: _Pending) -> bool:
        """True when this one is done with, whatever became of it."""
        planned = pending.planned
        number = (planned.host + pending.tried) % len(self._world.hosts)
        host = self._world.hosts[number]
        at = time.time()
        try:
            hit = _HOW[planned.kind](self._world, host, planned)
        except Skipped as skipped:
            self._note(planned, host, at, at, Outcome.SKIPPED, str(skipped))
            return True
        except (NoTarget, psycopg.Error, redis.RedisError) as nothing:
            pending.tried += 1
            if time.monotonic() < pending.due_s + TARGET_WAIT_S:
                return False
            self._note(planned, host, at, at, Outcome.MISSED, str(nothing).split("\n")[0])
            return True
        until = at if hit.mend is None else at + planned.for_s
        if hit.mend is not None:
            self._lasting.append(_Lasting(time.monotonic() + planned.for_s, hit.mend))
        self._note(planned, host, at, until, Outcome.HIT, hit.proof)
        return True

    def _note(self, planned: Planned, host: str, at: float, until: float, outcome: Outcome, proof: str) -> None:
        self.strikes.append(Strike(planned.kind, host, at, until, outcome, proof))


_HOW: dict[FaultKind, Callable[[World, str, Planned], Hit]] = {
    FaultKind.WORKER_KILLED: strikes.kill_worker,
    FaultKind.WORKER_STOPPED: strikes.stop_worker,
    FaultKind.WORKER_RESTARTED: strikes.restart_worker,
    FaultKind.ATTEMPT_KILLED: strikes.kill_attempt,
    FaultKind.ATTEMPT_STOPPED: strikes.stop_attempt,
    FaultKind.DISPATCHER_KILLED: strikes.kill_dispatcher,
    FaultKind.DISPATCHER_STOPPED: strikes.stop_dispatcher,
    FaultKind.SERVER_KILLED: strikes.kill_server,
    FaultKind.SERVER_STOPPED: strikes.stop_server,
    FaultKind.SCHEDULER_KILLED: strikes.kill_scheduler,
    FaultKind.SCHEDULER_STOPPED: strikes.stop_scheduler,
    FaultKind.REDIS_KILLED: strikes.kill_redis,
    FaultKind.REDIS_WIPED: strikes.wipe_redis,
    FaultKind.REDIS_STOPPED: strikes.stop_redis,
    FaultKind.REDIS_CUT: strikes.cut_redis,
    FaultKind.POSTGRES_RESTARTED: strikes.restart_postgres,
    FaultKind.POSTGRES_STOPPED: strikes.stop_postgres,
    FaultKind.POSTGRES_CUT: strikes.cut_postgres,
    FaultKind.DUPLICATES: strikes.send_duplicates,
    FaultKind.DISK_FULL: strikes.fill_disk,
    FaultKind.CLOCK_JUMPED: strikes.jump_clock,
}
