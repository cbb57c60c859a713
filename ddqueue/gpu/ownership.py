"""Who may use a host's GPUs: the kernel's lock on one file, inherited by the server.

A crashed attempt leaves its server holding the lock, so nobody else starts on GPUs that are still in use. And a free
lock is not free GPUs: children of the server do not inherit it, so whoever takes the lock first ends every process
that carries this lock's mark in its environment. A process without the mark was not started by us: it is named, and
never ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.processes import carriers, command_line, is_alive, openers, reap_children, start_ticks

LOCK_VARIABLE = "DDQUEUE_LOCK"
"""The environment variable that marks a server's processes. Its value is the lock's path, not the host's name, since
two installations on one machine must not end each other's servers."""

_POLL_S = 0.1


class HeldLock:
    """The lock while it is held; its file says who runs, for whoever has to recover."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self._path = path
        self._note: dict[str, Any] = {"runner": _named(os.getpid())}
        self._write()

    @property
    def fd(self) -> int:
        return self._fd

    @property
    def path(self) -> str:
        return str(self._path)

    def note_server(self, pid: int) -> None:
        self._note["server"] = _named(pid)
        self._write()

    def _write(self) -> None:
        text = json.dumps(self._note).encode()
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))


class KernelOwnership:
    """Ownership by `flock` on a file a host."""

    def __init__(self, folder: Path, recovery_limit_s: float = 30.0) -> None:
        self._folder = folder
        self._recovery_limit_s = recovery_limit_s

    @contextlib.contextmanager
    def own(self, host: str) -> Iterator[HeldLock | None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(host)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not self._take(fd, path):
                yield None
                return
            self.end_strays(host)
            yield HeldLock(fd, path)
        finally:
            os.close(fd)

    def strays(self, host: str) -> list[int]:
        return carriers(LOCK_VARIABLE, str(self._path(host)))

    def end_strays(self, host: str) -> list[int]:
        met: list[int] = []
        deadline = time.monotonic() + self._recovery_limit_s
        while left := self.strays(host):
            if time.monotonic() > deadline:
                raise AttemptFailure(Failure.GPU_BUSY, f"processes that do not end: {_described(left)}")
            for pid in left:
                _kill(pid)
            met += [pid for pid in left if pid not in met]
            reap_children()
            time.sleep(_POLL_S / 4)
        return met

    def _take(self, fd: int, path: Path) -> bool:
        """False when a live runner holds the lock."""
        deadline = time.monotonic() + self._recovery_limit_s
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                note = _read(fd)
            if _lives(note.get("runner")):
                return False
            # The runner is dead and something it started still holds the lock: its server, by the note.
            server = note.get("server")
            if server is not None and _lives(server):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(server["pid"], signal.SIGKILL)
            if time.monotonic() > deadline:
                raise AttemptFailure(Failure.GPU_BUSY, f"the lock {path} is held by {_described(openers(str(path)))}")
            time.sleep(_POLL_S)

    def _path(self, host: str) -> Path:
        return self._folder / f"{host}.lock"


def _named(pid: int) -> dict[str, int | None]:
    return {"pid": pid, "start_ticks": start_ticks(pid)}


def _lives(process: dict[str, Any] | None) -> bool:
    if process is None or process["start_ticks"] is None:
        return False
    return is_alive(process["pid"], process["start_ticks"])


def _read(fd: int) -> dict[str, Any]:
    try:
        note = json.loads(os.pread(fd, 4096, 0) or b"{}")
    except ValueError:
        return {}  # The holder is writing it just now; the next poll reads it whole.
    return note if isinstance(note, dict) else {}


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _described(pids: list[int]) -> str:
    return ", ".join(f"pid {pid} ({command_line(pid)})" for pid in pids) or "a process that cannot be seen"
