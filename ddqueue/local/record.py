"""What a supervisor writes down about its servers for other processes."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddqueue import processes
from ddqueue.errors import UsageError
from ddqueue.local.files import write_private


@dataclass(frozen=True)
class RunningProcess:
    """A pid with the process's start in clock ticks since boot: together they name it for ever."""

    pid: int
    start_ticks: int

    @classmethod
    def this(cls) -> RunningProcess:
        return cls(os.getpid(), processes.start_ticks(os.getpid()) or 0)

    def is_alive(self) -> bool:
        return processes.is_alive(self.pid, self.start_ticks)

    def as_json(self) -> dict[str, int]:
        return {"pid": self.pid, "start_ticks": self.start_ticks}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> RunningProcess:
        return cls(int(stored["pid"]), int(stored["start_ticks"]))


@dataclass(frozen=True)
class Record:
    """Both servers while both serve, and the supervisor that owns them. The URLs hold the passwords."""

    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)
    supervisor: RunningProcess
    postgres: RunningProcess
    valkey: RunningProcess

    def is_alive(self) -> bool:
        return self.supervisor.is_alive() and self.postgres.is_alive() and self.valkey.is_alive()

    def write(self, path: Path) -> None:
        """Replace the record in one step; only the owner can read it."""
        stored = {
            "database_url": self.database_url,
            "redis_url": self.redis_url,
            "supervisor": self.supervisor.as_json(),
            "postgres": self.postgres.as_json(),
            "valkey": self.valkey.as_json(),
        }
        write_private(path, json.dumps(stored, indent=2) + "\n")


def read_record(path: Path) -> Record | None:
    """The record, alive or not; None when there is none.

    Raises:
        UsageError: it is another user's.
    """
    text = _read(path)
    if text is None:
        return None
    try:
        stored = json.loads(text)
        return Record(
            database_url=str(stored["database_url"]),
            redis_url=str(stored["redis_url"]),
            supervisor=RunningProcess.from_json(stored["supervisor"]),
            postgres=RunningProcess.from_json(stored["postgres"]),
            valkey=RunningProcess.from_json(stored["valkey"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def announce_supervisor(lock: int) -> None:
    """Write this process into its lock, where `down` finds it before anything is ready."""
    os.pwrite(lock, json.dumps(RunningProcess.this().as_json()).encode(), 0)


def read_supervisor(lock: Path) -> RunningProcess | None:
    """The living supervisor that wrote itself into this lock; None when there is none.

    Raises:
        UsageError: it is another user's.
    """
    text = _read(lock)
    try:
        owner = RunningProcess.from_json(json.loads(text)) if text else None
    except (ValueError, KeyError, TypeError):
        return None
    return owner if owner and owner.is_alive() else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        raise UsageError(
            f"{path}: cannot be read, because the servers of this folder are another user's\n"
            "  become that user, or set DDQUEUE_HOME to a folder of your own"
        ) from None
