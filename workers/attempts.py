"""The worker's side of its attempt processes: keep a spare, give it an order, pass its progress on, end it when the
worker ends."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workers.orders import Order

log = logging.getLogger(__name__)

_GRACE_S = 300.0
"""What an attempt may take beyond its own limit before the worker ends it: it may be frozen."""

_SERVER_STARTED = "ready"
"""The phase in which the server starts, which is long and not measured: a spare's imports take nothing from a result,
and they are done well before the attempt is."""


@dataclass(frozen=True)
class Report:
    """What the attempt said at its end; `worked` is False when it claimed nothing, `refused` says that no attempt of
    this version may work on the database any more."""

    worked: bool
    text: str
    refused: bool = False


class AttemptProcesses:
    """One attempt at a time, and one spare process that has loaded everything and waits for the next order.

    A fresh process takes most of a second to come as far, while the GPUs stand idle. Built so that `stop_all` may be
    called inside a signal handler: no lock, no logging. `run` is not for two threads.
    """

    def __init__(self, worker: str, attempt_limit_s: float) -> None:
        self._worker = worker
        self._limit_s = attempt_limit_s + _GRACE_S
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._spare: subprocess.Popen[bytes] | None = None
        self._stopping = False

    @property
    def busy(self) -> bool:
        return bool(self._running)

    @property
    def spare_pid(self) -> int | None:
        """The spare's process id; None when there is no spare."""
        spare = self._spare
        return None if spare is None else spare.pid

    def stop_all(self) -> None:
        """Ask every attempt and the spare to stop; one that is being started right now is asked as soon as it
        exists."""
        self._stopping = True
        for process in list(self._running.values()):
            process.terminate()
        spare = self._spare
        if spare is not None:
            spare.terminate()

    def kill(self) -> None:
        """End the attempt that runs, whatever it is doing; the host's next owner ends what it leaves."""
        for process in list(self._running.values()):
            process.kill()

    def run(self, host: str, job_id: int, tell: Callable[[str, str], None]) -> Report:
        """Run one attempt to its end. Raises RuntimeError when it died without a report."""
        process = self._take()
        watchdog = threading.Timer(self._limit_s, process.kill)
        watchdog.daemon = True
        watchdog.start()

        def passed_on(phase: str, text: str) -> None:
            tell(phase, text)
            if phase == _SERVER_STARTED:
                self._provide_spare()

        try:
            _give(process, Order(host, job_id))
            report = _relay(process, passed_on)
            code = process.wait()
        finally:
            watchdog.cancel()
            if process.poll() is None:
                process.terminate()
            _close(process)
            self._running.pop(process.pid, None)
            # The attempt may have ended before it had a server.
            self._provide_spare()
        if report is None and code == 0 and self._stopping:
            return Report(False, "the worker stopped before the attempt had its order")
        if report is None:
            raise RuntimeError(f"the attempt process ended with {code} and no report")
        return report

    def _take(self) -> subprocess.Popen[bytes]:
        """The spare; a fresh process when there is none, or it has died."""
        spare, self._spare = self._spare, None
        if spare is not None and spare.poll() is not None:
            log.warning("the spare attempt process had ended with %s; starting another", spare.returncode)
            _close(spare)
            spare = None
        process = spare or self._start()
        self._running[process.pid] = process
        if self._stopping:
            process.terminate()
        return process

    def _provide_spare(self) -> None:
        if self._spare is not None or self._stopping:
            return
        try:
            self._spare = self._start()
        except OSError as error:  # the attempt that runs now does not need it, and the next starts its own
            log.warning("no spare attempt process could be started: %s", error)
            return
        if self._stopping:
            self._spare.terminate()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "workers.attempt", self._worker],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )


def _give(process: subprocess.Popen[bytes], order: Order) -> None:
    if process.stdin is None:
        raise TypeError("an attempt process takes its order from a pipe")
    try:
        process.stdin.write(order.to_line())
        process.stdin.flush()
    except BrokenPipeError:
        # It has just died: that it ends without a report says so, and the dispatcher wakes the host again.
        log.warning("the attempt process %d did not take its order", process.pid)


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            # Closing flushes what a dead process never read.
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


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
