"""What the kernel says of processes. Not the product's own functions: whoever watches must not share a mistake with the
watched."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass

TICKS_PER_S = os.sysconf("SC_CLK_TCK")

MARK = "DDQUEUE_LOCK"
"""The variable in a server's environment that names the lock of its host."""


@dataclass(frozen=True)
class Process:
    """A process, named for good by pid and start time; `state` is the kernel's letter, `session` its leader's pid."""

    pid: int
    start_ticks: int
    state: str
    parent: int
    session: int
    threads: int

    @property
    def runs(self) -> bool:
        """False for one that has ended and waits to be reaped; a killed one whose threads still end does run."""
        return self.state not in "ZX" or self.threads > 1

    @property
    def leads(self) -> bool:
        """Whether it leads its session: a server's parent does, its scheduler does not."""
        return self.pid == self.session


def now_s() -> float:
    """Seconds since boot, the clock of process start times; nothing that jumps the wall clock moves it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def began_at_latest_s(start_ticks: int) -> float:
    """Seconds since boot at which the process surely ran: the kernel rounds its start down to a tick."""
    return (start_ticks + 1) / TICKS_PER_S


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def read(pid: int) -> Process | None:
    """None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return Process(pid, int(fields[19]), fields[0], int(fields[1]), int(fields[3]), int(fields[17]))


def still(process: Process) -> Process | None:
    """The same process as it is now; None when it has ended, reaped or not."""
    found = read(process.pid)
    return found if found is not None and found.start_ticks == process.start_ticks and found.runs else None


def variable(pid: int, name: str) -> str | None:
    """What the process's environment says, as it was when its program started."""
    prefix = f"{name}=".encode()
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            found = next((word for word in file.read().split(b"\0") if word.startswith(prefix)), None)
    except OSError:
        return None
    return None if found is None else found[len(prefix) :].decode("utf-8", "replace")


def arguments(pid: int) -> list[str]:
    """The command line; empty when it cannot be read."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode("utf-8", "replace").split("\0")[:-1]
    except OSError:
        return []


def has_open(pid: int, path: str) -> bool | None:
    """Whether one of its descriptors names `path`; None when that cannot be said, because it is just ending or a
    descriptor went away during the look."""
    complete = True
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return None
    for descriptor in descriptors:
        try:
            if os.readlink(f"/proc/{pid}/fd/{descriptor}") == path:
                return True
        except OSError:
            complete = False
    # A process that ends lets go of all of its descriptors before anything else shows it.
    return False if descriptors and complete else None


def noted_runner(lock: str) -> tuple[int, int] | None:
    """Pid and start time of the attempt that the lock file names; None when it names none."""
    try:
        with open(lock) as file:
            note = json.load(file)
        return int(note["runner"]["pid"]), int(note["runner"]["start_ticks"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def owner(lock: str) -> Process | None:
    """The living attempt that the lock file names and that has the file open: whoever holds the host now."""
    noted = noted_runner(lock)
    if noted is None:
        return None
    process = read(noted[0])
    if process is None or process.start_ticks != noted[1] or not process.runs:
        return None
    return process if has_open(process.pid, lock) else None


def send(pid: int, number: signal.Signals) -> bool:
    """False when there is no such process any more."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def servers(lock: str) -> list[Process]:
    """The living processes that carry the lock's mark: a server's parent and its schedulers."""
    marked = (read(pid) for pid in pids() if variable(pid, MARK) == lock)
    return [process for process in marked if process is not None and process.runs]
