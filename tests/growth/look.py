"""What an installation holds at one moment: its processes with memory, descriptors and threads, and what lies where."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
import redis
from chaos import procfs
from installation import Installation

from ddqueue.local.servers import LocalServers

WORKER, SPARE, DISPATCHER = "worker", "spare attempt", "dispatcher"

PROCESSES, TEMPORARY, SESSIONS, KEYS = "processes", "temporary", "sessions", "redis keys"
LOGS = "logs - jobs"
"""A server's log is kept, one an attempt: whatever lies there beyond one a job grew."""
SHARED_MEMORY = "/dev/shm"
OTHERS_SHARED_MEMORY = "/dev/shm*"
"""The same where other programs use it too."""
CACHES = "home: caches"
NOT_JUDGED = {
    OTHERS_SHARED_MEMORY: "shared with other programs, a private one needs root",
    CACHES: "a file for each build of an engine, and a checkout is another build whenever somebody saves a source",
}
"""Counts that are shown only, each with the reason."""

_DEV_SHM = Path("/dev/shm")
_ATTEMPT = "workers.attempt"


@dataclass(frozen=True)
class Size:
    """Of one process, in KiB; `pss_kib` shares out what several processes have in common, so that it also moves when
    somebody else's process ends."""

    rss_kib: int
    pss_kib: int
    descriptors: int
    threads: int


@dataclass(frozen=True)
class Look:
    """`at_s` counts from the start of the services; `sizes` by process, without those that do not run; `counts` by
    what is counted."""

    label: str
    jobs: int
    at_s: float
    sizes: Mapping[str, Size]
    counts: Mapping[str, int]
    redis_kib: int


@dataclass(frozen=True)
class Place:
    """Where to look. `temporary` is the folder that TMPDIR names for everything that ddqueue starts."""

    installation: Installation
    servers: LocalServers
    temporary: Path
    host: str
    own_shared_memory: bool

    def look(self, label: str, jobs: int, began_s: float, services: Mapping[str, int]) -> Look:
        """`began_s` is a monotonic time; `services` are the pids of the worker and the dispatcher, by name."""
        with redis.Redis.from_url(self.servers.redis_url) as broker:
            keys, used_bytes = int(broker.dbsize()), int(broker.info("memory")["used_memory"])
        counts = {
            PROCESSES: len(self._processes()),
            TEMPORARY: _entries(self.temporary),
            SHARED_MEMORY if self.own_shared_memory else OTHERS_SHARED_MEMORY: _entries(_DEV_SHM),
            SESSIONS: self._sessions(),
            KEYS: keys,
            **{f"home: {name}": _entries(self.installation.home / name) for name in ("journal", "locks", "sim")},
            CACHES: _entries(self.installation.home / "caches"),
            LOGS: sum(1 for _ in (self.installation.home / "logs").rglob("*.log")) - jobs,
        }
        return Look(label, jobs, time.monotonic() - began_s, sizes_of(services), counts, used_bytes // 1024)

    def _processes(self) -> list[int]:
        """Everything of this installation, zombies of the worker's included."""
        home = str(self.installation.home)
        lock = str(self.installation.home / "locks" / f"{self.host}.lock")
        ours = [
            pid
            for pid in procfs.pids()
            if procfs.variable(pid, "DDQUEUE_HOME") == home or procfs.variable(pid, procfs.MARK) == lock
        ]
        return sorted({*ours, *(child for pid in ours for child in _children(pid))})

    def _sessions(self) -> int:
        """ddqueue's own in Postgres; neither the harness's nor this one."""
        with psycopg.connect(self.servers.database_url) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name <> 'tests'"
            ).fetchone()
        assert row is not None
        return int(row[0])


def sizes_of(services: Mapping[str, int]) -> dict[str, Size]:
    """Of each process id by its name, and of the spare attempt of each that has one; without those that have ended."""
    pids = dict(services)
    for name, service in services.items():
        spare = next((pid for pid in _children(service) if _ATTEMPT in procfs.arguments(pid)), None)
        if spare is not None:
            pids[name.replace(WORKER, SPARE)] = spare
    return {name: found for name, pid in pids.items() if (found := size(pid)) is not None}


def size(pid: int) -> Size | None:
    """None when there is no such process."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        descriptors, threads = len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return None
    kib = {words[0].rstrip(":"): int(words[1]) for line in lines if (words := line.split())}
    return Size(kib["Rss"], kib["Pss"], descriptors, threads)


def _children(pid: int) -> list[int]:
    return [other for other in procfs.pids() if (found := procfs.read(other)) is not None and found.parent == pid]


def _entries(folder: Path) -> int:
    """Files and folders below `folder`, which need not exist."""
    return sum(1 for _ in folder.rglob("*"))
