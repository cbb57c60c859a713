"""One running SGLang that this attempt started: ready, confirmed, watched, stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.queueing import PhaseRecord
from ddqueue.engine.command import Command
from ddqueue.engine.diagnosis import diagnose, from_lines
from ddqueue.engine.effective import compare
from ddqueue.engine.http import ask
from ddqueue.engine.logs import LogReader
from ddqueue.ports import ConfigurationCheck
from ddqueue.processes import reap_children

_POLL_S = 0.1


@dataclass(frozen=True)
class StartLimits:
    """How long a start may take in all, and how long without any new log output; how long a stop may take before
    force; how long a cache flush may wait for the server to be idle."""

    total_s: float = 3600.0
    no_progress_s: float = 900.0
    generation_s: float = 300.0
    stop_s: float = 30.0
    flush_s: float = 60.0


class SglangServer:
    """Created by the launcher; `stop` must be called, and may be called twice."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        url: str,
        tag: str,
        command: Command,
        log_path: Path,
        limits: StartLimits,
    ) -> None:
        self._process = process
        self._url = url
        self._tag = tag
        self._command = command
        self._limits = limits
        self._log = LogReader(log_path)
        self._stopped = False

    @property
    def url(self) -> str:
        return self._url

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def argv(self) -> tuple[str, ...]:
        return self._command.argv

    @property
    def environment(self) -> Mapping[str, str]:
        return self._command.environment

    def wait_ready(self, progress: Callable[[str, str], None], should_stop: Callable[[], None]) -> list[PhaseRecord]:
        """Ready means: our process lives, health is 200, the tag is ours, and one real generation returned tokens."""
        phases = _PhaseClock()
        deadline = time.monotonic() + self._limits.total_s
        quiet_since = time.monotonic()
        while True:
            should_stop()
            if self._log.read():
                quiet_since = time.monotonic()
            current = self._log.progress
            phases.enter(current.phase)
            progress(current.phase, current.text)
            self.check_alive()
            if self._is_ours():
                break
            now = time.monotonic()
            if now > deadline:
                raise AttemptFailure(
                    Failure.READY_TIMEOUT, self._silence(f"not ready after {self._limits.total_s:g} s")
                )
            if now - quiet_since > self._limits.no_progress_s:
                failure = Failure.CAPTURE_HANG if current.phase == "capture graphs" else Failure.READY_TIMEOUT
                raise AttemptFailure(failure, self._silence(f"no log output for {self._limits.no_progress_s:g} s"))
            time.sleep(_POLL_S)
        phases.enter("first generation")
        self._generate_once()
        return phases.close()

    def confirm(self) -> ConfigurationCheck:
        info = self._info()
        if info is None:
            raise AttemptFailure(Failure.SERVER_STALLED, "GET /server_info gave no answer")
        return compare(self._command.requested, info)

    def check_alive(self) -> None:
        code = self._process.poll()
        if code is None:
            return
        self._log.read()
        found = diagnose(self._log.tail, self._log.progress.phase, code)
        raise AttemptFailure(found.failure, found.evidence)

    def explain(self, error: str) -> Failure | None:
        self._log.read()
        found = from_lines([*self._log.tail, error], self._log.progress.phase)
        return None if found is None else found.failure

    def flush_cache(self) -> None:
        deadline = time.monotonic() + self._limits.flush_s
        while True:
            with contextlib.suppress(OSError):
                if ask(self._url, "POST", "/flush_cache").status == 200:
                    return
            self.check_alive()
            if time.monotonic() > deadline:
                raise AttemptFailure(
                    Failure.SERVER_STALLED, f"the cache could not be flushed: busy for {self._limits.flush_s:g} s"
                )
            time.sleep(_POLL_S)

    def stop(self) -> None:
        if self._stopped:
            return
        if self._process.poll() is None:
            # To the parent alone: a signal to the whole group looks like a crash of its children.
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(self._limits.stop_s)
        while self._kill_session():
            self._process.poll()
            reap_children()
            time.sleep(_POLL_S / 5)
        self._process.wait()
        self._stopped = True

    def _kill_session(self) -> bool:
        """Kill what is left of the server's session; False when nothing was."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def _is_ours(self) -> bool:
        try:
            if ask(self._url, "GET", "/health", timeout_s=5).status != 200:
                return False
        except OSError:
            return False
        info = self._info()
        if info is None:
            return False
        if info.get("weight_version") != self._tag:
            raise AttemptFailure(
                Failure.PORT_BUSY, f"{self._url} answers with the tag {info.get('weight_version')!r}, not {self._tag!r}"
            )
        return True

    def _generate_once(self) -> None:
        payload = {"text": "Once upon a time", "sampling_params": {"max_new_tokens": 4, "ignore_eos": True}}
        try:
            reply = ask(self._url, "POST", "/generate", payload, self._limits.generation_s)
        except OSError as error:
            self.check_alive()
            raise AttemptFailure(Failure.SERVER_STALLED, f"the first generation failed: {error}") from error
        answer = reply.json()
        meta = answer.get("meta_info") if isinstance(answer, dict) else None
        if reply.status != 200 or not isinstance(meta, dict) or not meta.get("completion_tokens"):
            self.check_alive()
            text = reply.body[:200].decode("utf-8", "replace")
            raise AttemptFailure(Failure.SERVER_STALLED, f"the first generation gave {reply.status}: {text}")

    def _info(self) -> dict[str, Any] | None:
        with contextlib.suppress(OSError):
            reply = ask(self._url, "GET", "/server_info")
            value = reply.json()
            if reply.status == 200 and isinstance(value, dict):
                return value
        return None

    def _silence(self, what: str) -> str:
        last = self._log.tail[-1:] or ["the log is empty"]
        current = self._log.progress
        return f"{what}, in phase '{current.phase}' {current.text}: {last[0].strip()}"


class _PhaseClock:
    """Times of the server's phases, as seen from outside."""

    def __init__(self) -> None:
        self._done: list[PhaseRecord] = []
        self._name = ""
        self._started_at = datetime.now(UTC)
        self._started_s = time.monotonic()

    def enter(self, name: str) -> None:
        if name == self._name:
            return
        self._end()
        self._name, self._started_at, self._started_s = name, datetime.now(UTC), time.monotonic()

    def close(self) -> list[PhaseRecord]:
        self._end()
        return self._done

    def _end(self) -> None:
        if self._name:
            self._done.append(PhaseRecord(self._name, self._started_at, time.monotonic() - self._started_s))
