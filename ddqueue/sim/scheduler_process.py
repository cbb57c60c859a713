"""The child process that holds the simulated GPU memory, titled `sglang::scheduler`.

It computes nothing: the parent does, so that the child's whole life is to hold memory, to die with its parent, and to
be killed by tests.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ddqueue.processes import die_with_parent
from ddqueue.sim.gpus import SimulatedGpus

TITLE = "sglang::scheduler"
_ACKNOWLEDGED = b"\n"


class SchedulerProcess:
    """The parent's side. Make it before threads and event loops exist: it forks."""

    def __init__(self, pid: int, commands: int, answers: int) -> None:
        self.pid = pid
        self._commands = commands
        self.answers = answers
        """Readable at end of file when the child has died."""

    @classmethod
    def start(cls, gpus_directory: Path | None, gpus: Sequence[int], release_after_s: float | None) -> SchedulerProcess:
        """Fork the child. Without a directory it holds nothing."""
        command_read, command_write = os.pipe()
        answer_read, answer_write = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                _close_all_but(0, 1, 2, command_read, answer_write)
                _live(command_read, answer_write, parent, gpus_directory, gpus, release_after_s)
            finally:
                os._exit(0)
        os.close(command_read)
        os.close(answer_write)
        return cls(pid, command_write, answer_read)

    def hold(self, mib: int) -> None:
        """Hold this much on every GPU; returns when the files say so. A dead child holds nothing: no error."""
        with suppress(BrokenPipeError):
            os.write(self._commands, f"{mib}\n".encode())
            os.read(self.answers, 1)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def exit_code(self) -> int:
        """Wait for the child's end; -9 for one that was killed."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _live(
    commands: int,
    answers: int,
    parent: int,
    gpus_directory: Path | None,
    gpus: Sequence[int],
    release_after_s: float | None,
) -> None:
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        return
    set_title(TITLE)
    held = SimulatedGpus(gpus_directory) if gpus_directory else None
    with os.fdopen(commands) as lines:
        for line in lines:
            if held is not None:
                for gpu in gpus:
                    held.hold(gpu, int(line), os.getpid(), release_after_s)
            os.write(answers, _ACKNOWLEDGED)


def _close_all_but(*kept: int) -> None:
    """Like a spawned child, and unlike a forked one, it has nothing open that its parent has open."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with suppress(OSError):
                os.close(int(name))


def set_title(title: str) -> None:
    """Show `title` as this process's command line and name, as `ps` prints them.

    The kernel reads the command line from the process's own memory; a longer one is cut to the room there is.
    """
    with open("/proc/self/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    start, end = int(fields[45]), int(fields[46])
    if 0 < start < end:
        room = end - start
        ctypes.memmove(start, title.encode()[: room - 1].ljust(room, b"\0"), room)
    with suppress(OSError), open("/proc/self/comm", "w") as file:
        file.write(title[:15])
