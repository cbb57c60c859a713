"""Runs the commands by which a box is taken from production and given back."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ddqueue.domain.borrowing import CommandEnd, RunningCommand
from ddqueue.processes import is_alive, start_ticks

_POLL_S = 0.1
_GRACE_S = 5.0
"""Between SIGTERM and SIGKILL, and how long a killed process may take to be gone."""
_SAID_BYTES = 2000
_LAST_READS = 32
_OURS = "DDQUEUE_"
"""Our own variables, passwords in URLs among them, are not the command's business."""

_WAIT_THEN_BECOME = """
import os, signal, sys
if not os.read(0, 1):
    os._exit(125)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
try:
    os.execvp(sys.argv[1], sys.argv[1:])
except OSError as error:
    os.write(1, os.fsencode(f"{sys.argv[1]}: {error.strerror}"))
    os._exit(127)
"""
"""Becomes the command once it is told to, and ends if its parent dies before: so that no command ever runs that its
loan does not name. What Python and the worker ignore would stay ignored in production."""


class ProcessCommands:
    """Implements ports.HostCommands. A command is a session of its own, has no standard input, and may leave processes
    behind, as `give_back` does that starts a server without systemd: only its own end is waited for."""

    def boot(self) -> str:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    def run(
        self,
        command: Sequence[str],
        limit_s: float,
        should_stop: Callable[[], None],
        started: Callable[[RunningCommand], None],
    ) -> CommandEnd:
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _WAIT_THEN_BECOME, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={name: value for name, value in os.environ.items() if not name.startswith(_OURS)},
                start_new_session=True,
            )
        except OSError as error:
            return CommandEnd(tuple(command), f"could not be started ({error.strerror})", "")
        try:
            # A process that has not been waited for has a start time, whatever became of it.
            started(RunningCommand(process.pid, start_ticks(process.pid) or 0))
            _let_go(process)
            said = _Tail(process)
            problem = _wait(process, said, limit_s, should_stop)
            return CommandEnd(tuple(command), problem, said.text())
        except BaseException:
            _end_group(process)
            raise
        finally:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def end(self, command: RunningCommand) -> None:
        deadline = time.monotonic() + _GRACE_S
        while is_alive(command.pid, command.start_ticks) and time.monotonic() < deadline:
            _signal_group(command.pid, signal.SIGKILL)
            time.sleep(_POLL_S)


class _Tail:
    """The end of what a process prints, read as it comes: a full pipe would stop it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdout is None:
            raise TypeError("its output must be a pipe")
        self._fd = process.stdout.fileno()
        self._open = True
        self._kept = b""

    def read(self, wait_s: float) -> None:
        """What has come, waiting at most so long for any of it."""
        if not self._open:
            time.sleep(wait_s)
        elif select.select([self._fd], [], [], wait_s)[0]:
            data = os.read(self._fd, 1 << 16)
            self._open = bool(data)
            self._kept = (self._kept + data)[-_SAID_BYTES:]

    def text(self) -> str:
        """Everything read, and what is there without waiting: whoever the command left behind may never close it."""
        for _ in range(_LAST_READS):
            if self._open:
                self.read(0)
        return self._kept.decode("utf-8", "replace").replace("\0", "")


def _let_go(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is None:
        raise TypeError("its standard input must be a pipe")
    with contextlib.suppress(BrokenPipeError):  # somebody killed it: its exit code says so
        process.stdin.write(b".")
        process.stdin.close()


def _wait(process: subprocess.Popen[bytes], said: _Tail, limit_s: float, should_stop: Callable[[], None]) -> str:
    """How it ended, in words; empty for exit code 0."""
    deadline = time.monotonic() + limit_s
    while process.poll() is None:
        should_stop()
        if time.monotonic() > deadline:
            _end_group(process)
            return f"did not end within {limit_s:g} s and was killed"
        said.read(_POLL_S)
    code = process.returncode
    if code < 0:
        return f"was killed by {_signal_name(-code)}"
    return f"ended with {code}" if code else ""


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End it with its process group; one that even SIGKILL does not end, in a driver's call say, is left.

    Whatever a command that has ended by itself left behind is not touched: it may be production.
    """
    if process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        _signal_group(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    # The leader may have gone at the first signal while its children did not.
    _signal_group(process.pid, signal.SIGKILL)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
