"""Naming processes for good: a pid is used again, a pid with its start time is not. Linux only."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def start_ticks(pid: int) -> int | None:
    """The process's start in clock ticks since boot; None when there is no such process."""
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def is_alive(pid: int, ticks: int) -> bool:
    """Whether exactly this process still runs, in any of its threads; a zombie that has none does not."""
    fields = _stat(pid)
    return fields is not None and int(fields[19]) == ticks and not _has_ended(fields)


def command_line(pid: int) -> str:
    """The process's argv as one line of at most 200 characters; empty when it cannot be read."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read(4096).replace(b"\0", b" ").decode("utf-8", "replace").strip()[:200]
    except OSError:
        return ""


def become_subreaper() -> None:
    """Re-parent orphaned descendants to this process, so that it can end and reap them."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Deliver `number` to this process when the thread that started it ends."""
    _prctl(_PR_SET_PDEATHSIG, int(number))


def reap_children() -> None:
    """Collect every child that has ended, without waiting."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def carriers(variable: str, value: str) -> list[int]:
    """Processes, other than the caller, that were started with `variable`=`value` in their environment.

    Other users' processes, whose environment cannot be read, are left out.
    """
    mine = os.getpid()
    mark = f"{variable}={value}".encode()
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != mine and _carries(name, mark)]


def session_members(session: int) -> dict[int, bool]:
    """The processes of the session, each with whether it still runs; one that does not waits to be reaped."""
    found = {}
    for name in os.listdir("/proc"):
        fields = _stat(int(name)) if name.isdigit() else None
        if fields is not None and int(fields[3]) == session:
            found[int(name)] = not _has_ended(fields)
    return found


def openers(path: str) -> list[int]:
    """Processes, other than the caller, that have `path` open, as far as this user can see."""
    mine = os.getpid()
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != mine and _opened(name, path)]


def _carries(pid: str, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False


def _opened(pid: str, path: str) -> bool:
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}") == path for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def _has_ended(fields: list[str]) -> bool:
    """A killed process reads as a zombie from the moment its first thread is gone; while the driver takes a context
    down, its other threads still hold memory and sockets, and nobody can reap it."""
    return fields[0] in "ZX" and int(fields[17]) <= 1


def _stat(pid: int) -> list[str] | None:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None


def _prctl(option: int, argument: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, argument, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
