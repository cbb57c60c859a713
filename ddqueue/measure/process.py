"""The parent's side of the load client: a process of its own, so that neither disturbs the other's timing."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic
from types import TracebackType
from typing import IO

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.measurement import PointRun
from ddqueue.domain.sweep import Point
from ddqueue.measure.http1 import Address
from ddqueue.measure.limits import Limits
from ddqueue.measure.messages import NO_PROMPTS, RunRequest, RunResult

POLL_S = 0.2
GRACE_S = 60.0
"""What a run may take beyond its requests' own limits (prompts, reading, writing) before the client counts as stuck."""

WARM_UP_OUTPUT = 16
"""Tokens that are enough to have met every shape: kernels compile by shape, not by length."""

EXIT_S = 1.0
EVIDENCE_BYTES = 2000


class ClientProcess:
    """Implements ports.LoadClient. The process starts with the first run and serves every later one; one ClientProcess
    is for one server's life, whose tokenizer it remembers.

    Use it as a context manager, or `close` it. It also ends by itself when this process does. A run sends as many
    requests as it keeps in flight, each once and all started together, unless `requests` says another number.
    """

    def __init__(self, requests: int | None = None, limits: Limits | None = None) -> None:
        self._requests = requests
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    def __enter__(self) -> ClientProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The client's process id while it runs."""
        return None if self._process is None else self._process.pid

    def run(
        self,
        url: str,
        point: Point,
        repeat: int,
        salt: str,
        should_stop: Callable[[], None],
        warm_up: bool = False,
        prompts: str | None = None,
    ) -> PointRun:
        """One closed-loop run of `point` against `url`; a warm-up asks for at most WARM_UP_OUTPUT tokens.

        Failed requests are in the result, never raised. Whatever `should_stop` raises is passed on, and
        AttemptFailure(INFRA) is raised when the client itself failed; in both cases the process is gone by then.
        Raises AttemptFailure(BAD_ARGS) when the file `prompts` cannot be read.
        Raises UsageError when `url` is no server's address.
        """
        Address.of(url)
        if prompts is not None and not os.access(prompts, os.R_OK):
            raise AttemptFailure(Failure.BAD_ARGS, f"measure.prompts: {prompts} cannot be read on this host")
        if warm_up:
            point = replace(point, output=min(point.output, WARM_UP_OUTPUT))
        limits = self._limits or Limits.for_point(point)
        requests = self._requests or point.concurrency
        request = RunRequest(
            url, point.concurrency, point.context, point.output, requests, repeat, salt, warm_up, limits, prompts
        )
        rounds = -(-requests // point.concurrency)
        try:
            result = RunResult.from_line(
                self._exchange(request, should_stop, GRACE_S + rounds * (limits.connect_s + limits.total_s))
            )
        except BaseException:
            self._end()
            raise
        return PointRun(
            point=point,
            repeat=repeat,
            started_at=datetime.fromtimestamp(result.started_at, UTC),
            wall_s=result.wall_s,
            requests=result.requests,
            client=result.client,
            started_s=result.started_s,
        )

    def close(self) -> None:
        """End the process; safe to call again."""
        self._end()

    def _exchange(self, request: RunRequest, should_stop: Callable[[], None], limit_s: float) -> bytes:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(request.to_line())
            process.stdin.flush()
        except BrokenPipeError:
            raise self._failed(process, "ended before a run") from None
        deadline = monotonic() + limit_s
        line = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                should_stop()
                if monotonic() > deadline:
                    raise self._failed(process, f"gave no result within {limit_s:g} s")
                if selector.select(POLL_S):
                    data = os.read(process.stdout.fileno(), 1 << 20)
                    if not data:
                        raise self._failed(process, "ended without a result")
                    line += data
        return bytes(line)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            # A file, not a pipe: nobody reads it while a run goes on, and a full pipe would stop the client.
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ddqueue.measure.client"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
            )
        return self._process

    def _failed(self, process: subprocess.Popen[bytes], what: str) -> AttemptFailure:
        """The failure, with the exit status and the end of what the client wrote to standard error."""
        failure = Failure.INFRA
        try:
            code = process.wait(timeout=EXIT_S)
            status = f"exit status {code}"
            failure = Failure.BAD_ARGS if code == NO_PROMPTS else failure
        except subprocess.TimeoutExpired:
            status = "still running"
        said = ""
        if self._errors is not None:
            self._errors.seek(0)
            said = self._errors.read()[-EVIDENCE_BYTES:].decode("utf-8", "replace").strip()
        if failure is Failure.BAD_ARGS:
            return AttemptFailure(failure, said)
        return AttemptFailure(failure, f"the load client {what} ({status}){': ' if said else ''}{said}")

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    # Closing flushes what a dead client never read.
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None
