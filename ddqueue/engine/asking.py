"""Runs a short command of a build and collects what it says, within a time limit and as long as nobody says stop."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_POLL_S = 0.2
_PRIVATE = "DDQUEUE_"
"""Our own variables, passwords in URLs among them, are not the build's business."""

_PLAIN = {"COLUMNS": "200", "NO_COLOR": "1", "PYTHON_COLORS": "0", "PYTHONWARNINGS": "ignore"}


@dataclass(frozen=True)
class Answer:
    """What a command printed, stderr with stdout; `code` is None when it ran past its limit and was ended."""

    text: str
    code: int | None

    @property
    def last_line(self) -> str:
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return lines[-1][:300] if lines else "it printed nothing"


def ask(
    command: Sequence[str], environment: Mapping[str, str], limit_s: float, should_stop: Callable[[], None]
) -> Answer:
    """Run `command` with `environment` on top of this process's own.

    Raises:
        OSError: it cannot be started.
        Whatever `should_stop` raises, after the command and its children have been ended.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_PRIVATE)}
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=inherited | dict(environment) | _PLAIN,
        start_new_session=True,
    )
    deadline = time.monotonic() + limit_s
    try:
        while True:
            should_stop()
            left_s = deadline - time.monotonic()
            with contextlib.suppress(subprocess.TimeoutExpired):
                said, _ = process.communicate(timeout=max(0.0, min(_POLL_S, left_s)))
                return Answer(said.decode("utf-8", "replace"), process.returncode)
            if left_s <= 0:
                return Answer("", None)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
