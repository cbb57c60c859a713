"""A server as a child process that ends when its parent ends, even by SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ddqueue import processes
from ddqueue.errors import DdqueueError
from ddqueue.local.account import Account
from ddqueue.local.files import last_lines

_LOG_LIMIT_BYTES = 8 * 2**20
_POLL_S = 0.02

ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
"""All that the servers see: a PGPORT of the caller's must not change them, nor its secrets reach them."""


@dataclass(frozen=True)
class Program:
    """One process to start."""

    name: str
    """As a person would say it: `Postgres`."""
    argv: list[str]
    """Without secrets: every user of the machine can read it."""
    lock: int
    """The descriptor of the server's lock, which the process and all it starts inherit."""
    log: Path
    account: Account | None
    stop_signal: signal.Signals
    """Makes the process end in good order; also what it gets when the parent dies."""
    stdin: str = ""


class Child:
    """A process started from a `Program`, until it is reaped."""

    def __init__(self, program: Program, process: subprocess.Popen[str]) -> None:
        self._program = program
        self._process = process
        self.start_ticks = processes.start_ticks(process.pid) or 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs; negative for a signal's number."""
        return self._process.poll()

    def ask_to_stop(self) -> None:
        if self.exit_code() is None:
            self._process.send_signal(self._program.stop_signal)

    def wait_stopped(self, patience_s: float) -> None:
        """Wait for the end after `ask_to_stop`; then insist, so that nothing stays behind."""
        # SIGQUIT is Postgres's immediate shutdown: it takes its backends along, which SIGKILL does not.
        for insist, limit_s in ((signal.SIGQUIT, patience_s), (signal.SIGKILL, 5.0)):
            try:
                self._process.wait(limit_s)
                return
            except subprocess.TimeoutExpired:
                self._process.send_signal(insist)
        self._process.wait()

    def evidence(self) -> str:
        """How it ended and the end of its log."""
        return f"{self._program.name} {_ending(self.exit_code())}; the end of {self._program.log} says:\n" + last_lines(
            self._program.log
        )


def spawn(program: Program) -> Child:
    """Start the process in a session of its own, so that ^C reaches only the parent.

    Must be called from the main thread: the kernel delivers the parent's death when the *thread* that forked ends.

    Raises:
        DdqueueError: the program cannot be executed.
    """
    _require_main_thread()
    try:
        with open_log(program.log) as log:
            process = subprocess.Popen(
                program.argv,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                **_isolation(program),
            )
    except OSError as error:
        raise DdqueueError(f"{program.name} cannot be started: {error}") from error
    child = Child(program, process)
    assert process.stdin is not None
    try:
        with process.stdin as stdin:
            stdin.write(program.stdin)
    except BrokenPipeError:
        pass  # It has ended already, and whoever waits for it to be ready sees its exit code.
    return child


def start_until_ready(
    attempt: Callable[[], Child], is_ready: Callable[[Child], bool], retry_s: float = 8.0, ready_s: float = 300.0
) -> Child:
    """Start a server and wait until it serves; one that ends at once is tried again for `retry_s`.

    `attempt` spawns it, each time on a port that is free then. `ready_s` is long because recovery after a crash is
    allowed to take its time.

    Raises:
        DdqueueError: it keeps ending, or does not become ready; the text has the end of its log.
    """
    give_up = time.monotonic() + retry_s
    while True:
        child = attempt()
        try:
            if _wait_ready(child, is_ready, ready_s):
                return child
        except BaseException:
            # Also on ^C: nobody else knows this child yet.
            child.ask_to_stop()
            child.wait_stopped(10.0)
            raise
        if time.monotonic() >= give_up:
            raise DdqueueError(child.evidence())
        time.sleep(0.2)


def run_tool(program: Program, limit_s: float = 300.0) -> None:
    """Run a program to its end, as the server that it prepares would run.

    Raises:
        DdqueueError: it failed; the text has the end of its log.
    """
    _require_main_thread()
    try:
        with open_log(program.log) as log:
            code = subprocess.run(
                program.argv,
                input=program.stdin,
                stdout=log,
                stderr=log,
                text=True,
                timeout=limit_s,
                **_isolation(program),
            ).returncode
    except subprocess.TimeoutExpired:
        raise DdqueueError(f"{program.name} did not end within {limit_s:.0f} s; see {program.log}") from None
    except OSError as error:
        raise DdqueueError(f"{program.name} cannot be started: {error}") from error
    if code != 0:
        raise DdqueueError(f"{program.name} {_ending(code)}; the end of {program.log} says:\n{last_lines(program.log)}")


def open_log(path: Path) -> IO[bytes]:
    """The log, for appending and for its owner alone; a long one is set aside as `.1` first."""
    if path.exists() and path.stat().st_size > _LOG_LIMIT_BYTES:
        path.replace(path.with_name(f"{path.name}.1"))
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def _isolation(program: Program) -> dict[str, Any]:
    parent = os.getpid()

    def in_the_child() -> None:
        # After the change of user, which would clear it.
        processes.die_with_parent(program.stop_signal)
        if os.getppid() != parent:  # The parent ended before it could be watched.
            os._exit(1)

    return {
        "cwd": "/",
        "env": ENVIRONMENT,
        "start_new_session": True,
        "pass_fds": (program.lock,),
        "preexec_fn": in_the_child,
        **(program.account.credentials() if program.account else {}),
    }


def _require_main_thread() -> None:
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("the embedded servers must be started from the main thread, whose end they share")


def _wait_ready(child: Child, is_ready: Callable[[Child], bool], ready_s: float) -> bool:
    """Whether it became ready; False when it ended instead."""
    deadline = time.monotonic() + ready_s
    while child.exit_code() is None:
        if is_ready(child):
            return True
        if time.monotonic() >= deadline:
            raise DdqueueError(f"not ready within {ready_s:.0f} s: {child.evidence()}")
        time.sleep(_POLL_S)
    return False


def _ending(code: int | None) -> str:
    if code is None:
        return "still runs"
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
