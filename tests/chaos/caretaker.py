"""The person who looks after the hosts during a run, and the auditor who tries stale fences meanwhile."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time

import psycopg

from .clients import Clients
from .history import StaleWrite
from .world import World

_LOOK_EVERY_S = 1.0
_PROBE_EVERY_S = 12.0


class Caretaker:
    """A thread of its own, because whatever it asks may hang while Postgres is stopped.

    `open_jobs` is how many jobs were not final when it last could look; None before that.
    """

    def __init__(self, world: World, clients: Clients) -> None:
        self._world = world
        self._clients = clients
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="caretaker")
        self.open_jobs: int | None = None
        self.stale_writes: list[StaleWrite] = []
        self.quarantines: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def probe(self) -> None:
        """Try to write with fences that are not good any more, by the build under test; nothing while it is away."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = self._world.run("-m", "chaos.probe")
            self.stale_writes += [StaleWrite(**json.loads(line)) for line in done.stdout.splitlines()]

    def look(self) -> list[str]:
        """Count the open jobs; returns the hosts that take no work. Nothing while Postgres is away."""
        with contextlib.suppress(psycopg.Error), self._world.postgres.connection() as connection:
            count = connection.execute("SELECT count(*) FROM jobs WHERE state IN ('queued', 'running')").fetchone()
            rows = connection.execute(
                "SELECT name, quarantine_class || ': ' || quarantine_reason FROM hosts WHERE quarantined_at IS NOT NULL"
            ).fetchall()
            self.open_jobs = None if count is None else int(str(count[0]))
            self.quarantines += [f"{name}: {reason}" for name, reason in rows]
            return [str(name) for name, _ in rows]
        return []

    def _run(self) -> None:
        probed_s = time.monotonic()
        while not self._stop.wait(_LOOK_EVERY_S):
            for host in self.look():
                self._clients.insist("release", host)
            if time.monotonic() - probed_s > _PROBE_EVERY_S:
                self.probe()
                probed_s = time.monotonic()
