"""The worker's side of its attempt processes: start one, pass its progress on, end it when the worker ends."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

log = logging.getLogger(__name__)

_GRACE_S = 300.0
"""What an attempt may take beyond its own limit before the worker ends it: it may be frozen."""


@dataclass(frozen=True)
class Report:
    """What the attempt said at its end; `worked` is False when it claimed nothing."""

    worked: bool
    text: str


class AttemptProcesses:
    """Usually one at a time. Built so that `stop_all` may be called inside a signal handler: no lock, no logging."""

    def __init__(self, worker: str, attempt_limit_s: float) -> None:
        self._worker = worker
        self._limit_s = attempt_limit_s + _GRACE_S
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._stopping = False

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def stop_all(self) -> None:
        """Ask every attempt to stop; one that is being started right now is asked as soon as it exists."""
        self._stopping = True
        for process in list(self._running.values()):
            process.terminate()

    def run(self, host: str, job_id: int, tell: Callable[[str, str], None]) -> Report:
        """Run one attempt to its end. Raises RuntimeError when it died without a report."""
        process = subprocess.Popen(
            [sys.executable, "-m", "workers.attempt", host, str(job_id), self._worker],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._running[process.pid] = process
        if self._stopping:
            process.terminate()
        watchdog = threading.Timer(self._limit_s, process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            report = _relay(process, tell)
            code = process.wait()
        finally:
            watchdog.cancel()
            if process.poll() is None:
                process.terminate()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            self._running.pop(process.pid, None)
        if report is None:
            raise RuntimeError(f"the attempt process ended with {code} and no report")
        return report


def _relay(process: subprocess.Popen[bytes], tell: Callable[[str, str], None]) -> Report | None:
    report = None
    for line in process.stdout or ():
        message = _parsed(line)
        if "report" in message:
            report = Report(**message["report"])
        elif "phase" in message:
            tell(message["phase"], message["text"])
    return report


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError:
        log.warning("an attempt wrote a line that is not progress: %r", line[:200])
        return {}
    return message if isinstance(message, dict) else {}
