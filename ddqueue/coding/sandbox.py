"""Runs Python that a model wrote where it can harm nothing: see docs/decisions/0009-how-model-code-is-run.md."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from time import monotonic
from typing import IO, Any

from ddqueue.coding.limits import Exceeded, Limits
from ddqueue.coding.sandbox_exchange import Dialogue, Exchange
from ddqueue.coding.sandbox_view import View, view_of_this_python
from ddqueue.coding.sandbox_walls import Walls, interpreter_command, walls_to_try

GRACE_S = 10.0
"""What building the walls and taking them down may take beyond the program's own wall time."""

_ENVIRONMENT = {
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    # Each arena reserves 64 MiB of address space, so that a few threads would meet the bound with nothing in them.
    "MALLOC_ARENA_MAX": "1",
}
# Not `python -`, which takes a NUL for the end of the program.
_BOOT = "import sys; exec(compile(sys.stdin.buffer.read(), '<program>', 'exec'))"
_SAID = 500
"""Characters of standard error that a fault quotes."""

_PROBE = "print('in')"
_OWN_IDENTITIES_FROM, _OWN_IDENTITIES = 0x7000_0000, 0x0FFE_0000
"""A range of user ids that systemd's allocation leaves unused; one is drawn for each run as root."""


@dataclass(frozen=True)
class SandboxResult:
    """What became of one run.

    `exit_code` is negative for the signal that ended the program, and None when the sandbox ended it or never started
    it. `stdout` and `stderr` hold at most `Limits.output_bytes` together. `fault` says why the sandbox could not do its
    work: then the rest says nothing about the program.
    """

    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    killed_for: Exceeded | None = None
    fault: str | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0
    memory_mib: float = 0.0

    @property
    def timed_out(self) -> bool:
        """Whether it used up its CPU time or its time on the clock."""
        return self.killed_for in (Exceeded.CPU, Exceeded.WALL)


class Sandbox:
    """Runs programs one by one, each in a sandbox of its own; safe to use from several threads.

    The first run finds out which walls stand on this machine. While none does, every result is a fault: nothing ever
    runs without them.
    """

    def __init__(self, walls: Sequence[Walls] | None = None) -> None:
        """`walls` are tried in their order; by default bubblewrap, if it is on PATH, and then namespaces of our own."""
        self._candidates = walls_to_try(shutil.which("bwrap")) if walls is None else walls
        self._view = view_of_this_python()
        self._found: Walls | None = None

    @property
    def walls(self) -> str | None:
        """The name of the walls that stand here, or None."""
        found, _ = self._standing()
        return None if found is None else found.name

    def run(self, code: str, limits: Limits | None = None, dialogue: Dialogue | None = None) -> SandboxResult:
        """Run `code` as a program with nothing on standard input; every process of it has ended when this returns.

        `dialogue` talks to the program over descriptor 3, a line at a time. Nothing that the program does raises here.
        """
        walls, why_not = self._standing()
        if walls is None:
            return SandboxResult(fault=why_not)
        return _run(walls, self._view, code, limits or Limits(), dialogue)

    def _standing(self) -> tuple[Walls | None, str]:
        """The first walls that keep a harmless program, or why none does (asked again then: it may pass)."""
        refusals = []
        for walls in self._candidates if self._found is None else ():
            result = _run(walls, self._view, _PROBE, Limits(), None)
            if result.fault is None and result.stdout == "in\n":
                self._found = walls
                break
            said = f"Python did not start (status {result.exit_code}): {result.stderr.strip()[-_SAID:]}"
            refusals.append(f"{walls.name}: {result.fault or said}; {walls.remedy}")
        return self._found, "no sandbox on this machine, so nothing was run. " + ". ".join(refusals)


def _run(walls: Walls, view: View, code: str, limits: Limits, dialogue: Dialogue | None) -> SandboxResult:
    started = monotonic()
    try:
        return _run_behind(walls, view, code, limits, dialogue)
    except OSError as error:
        # No descriptor, process or memory was to be had for it, or no such program: of this machine, not of the code.
        return SandboxResult(fault=f"cannot start {walls.name}: {error}", wall_s=monotonic() - started)


def _run_behind(walls: Walls, view: View, code: str, limits: Limits, dialogue: Dialogue | None) -> SandboxResult:
    started = monotonic()
    with ExitStack() as ours, ExitStack() as theirs:
        report_from, report_to = _pipe(ours, theirs)
        leash_from, leash_to = _pipe(theirs, ours)
        channel, channel_theirs = socket.socketpair()
        ours.enter_context(channel)
        theirs.enter_context(channel_theirs)
        program = theirs.enter_context(_in_memory(code.encode("utf-8", "surrogatepass")))
        request = {
            "view": asdict(view),
            "limits": asdict(limits),
            "argv": [*interpreter_command(view.interpreter), "-c", _BOOT],
            "environment": _ENVIRONMENT,
            "uid": _OWN_IDENTITIES_FROM + secrets.randbelow(_OWN_IDENTITIES) if os.geteuid() == 0 else None,
            "parent": os.getpid(),
            "report_fd": report_to.fileno(),
            "leash_fd": leash_from.fileno(),
            "channel_fd": channel_theirs.fileno(),
        }
        asked = theirs.enter_context(_in_memory(json.dumps(request).encode()))
        passed = (asked.fileno(), report_to.fileno(), leash_from.fileno(), channel_theirs.fileno())
        process = subprocess.Popen(
            walls.command(view, limits, asked.fileno()),
            stdin=program,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=passed,
            env={},
            cwd="/",
            start_new_session=True,
        )
        with process:
            try:
                theirs.close()
                exchange = Exchange(process, report_from, channel, limits.output_bytes, dialogue)
                exchange.until_ended(leash_to.close, started + limits.wall_s + GRACE_S)
            finally:
                # The keeper ends with its leash, and everything in the sandbox with the keeper: leaving waits for that.
                leash_to.close()
    return _result(exchange, process.returncode, monotonic() - started)


def _result(exchange: Exchange, status: int, wall_s: float) -> SandboxResult:
    stdout, stderr = (bytes(kept).decode("utf-8", "replace") for kept in (exchange.stdout, exchange.stderr))
    if exchange.too_much:
        return SandboxResult(None, stdout, stderr, Exceeded.OUTPUT, wall_s=wall_s)
    report: dict[str, Any] = {}
    if exchange.late:
        report = {"fault": f"the sandbox did not end its program in time, and was ended after {wall_s:.0f} s"}
    else:
        try:
            report = json.loads(exchange.report)
        except ValueError:
            said = stderr.strip()[-_SAID:]
            report = {"fault": f"the sandbox ended without a report (status {status}): {said}"}
    if "fault" in report:
        return SandboxResult(None, stdout, stderr, fault=report["fault"], wall_s=wall_s)
    return SandboxResult(
        exit_code=report["exit_code"],
        stdout=stdout,
        stderr=stderr,
        killed_for=Exceeded(report["exceeded"]) if report["exceeded"] else None,
        wall_s=wall_s,
        cpu_s=report["cpu_s"],
        memory_mib=report["memory_bytes"] / (1 << 20),
    )


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    """A pipe whose ends are closed with whom they belong to."""
    read_fd, write_fd = os.pipe()
    return (
        reading.enter_context(open(read_fd, "rb", buffering=0)),
        writing.enter_context(open(write_fd, "wb", buffering=0)),
    )


def _in_memory(content: bytes) -> IO[bytes]:
    """A file without a name that holds `content`, at its beginning: nothing is left behind, whatever happens."""
    file = open(os.memfd_create("ddqueue-sandbox"), "w+b")  # noqa: SIM115
    file.write(content)
    file.seek(0)
    return file
