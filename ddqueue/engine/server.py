"""One running SGLang that this attempt started: ready, confirmed, watched, stopped."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Mapping

from ddqueue.domain.configuration import Scalar
from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.queueing import PhaseRecord
from ddqueue.engine.command import Command
from ddqueue.engine.diagnosis import diagnose, from_lines
from ddqueue.engine.effective import compare
from ddqueue.engine.ending import end
from ddqueue.engine.family import Family
from ddqueue.engine.http import ask, server_info
from ddqueue.engine.limits import StartLimits
from ddqueue.engine.logs import LogReader
from ddqueue.engine.output import BoundedLog
from ddqueue.engine.readiness import Readiness, port_holders
from ddqueue.engine.vigil import Vigil
from ddqueue.ports import ConfigurationCheck

_POLL_S = 0.1


class SglangServer:
    """Created by the launcher; `stop` must be called, and may be called twice."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        port: int,
        tag: str,
        command: Command,
        requested: Mapping[str, Scalar],
        output: BoundedLog,
        family: Family,
        limits: StartLimits,
    ) -> None:
        """`requested` is what `confirm` compares: the command's own settings and those said in other ways."""
        self._process = process
        self._port = port
        self._tag = tag
        self._command = command
        self._requested = requested
        self._output = output
        self._family = family
        self._limits = limits
        self._log = LogReader(output.path)
        self._vigil = Vigil(self._log, family, limits.fatal_s)
        self._lingers = False
        self._ended: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    @property
    def tag(self) -> str:
        """What every answer must carry as its weight version."""
        return self._tag

    @property
    def log(self) -> LogReader:
        return self._log

    @property
    def family(self) -> Family:
        return self._family

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def argv(self) -> tuple[str, ...]:
        return self._command.argv

    @property
    def environment(self) -> Mapping[str, str]:
        return self._command.environment

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the engine itself said about its settings so far, e.g. that it changed one."""
        self._log.read()
        return tuple(self._log.notable)

    def compilations(self) -> int:
        self._log.read()
        return self._log.compilations

    def wait_ready(self, progress: Callable[[str, str], None], should_stop: Callable[[], None]) -> list[PhaseRecord]:
        """Ready means: our process lives, it is who listens on the port, health is 200, the tag is ours, and one real
        generation returned tokens, all within one total limit. `confirm` is what remains to be proven."""
        return Readiness(self, self._limits, progress, should_stop).wait()

    def confirm(self) -> ConfigurationCheck:
        info = server_info(lambda path: ask(self.url, "GET", path))
        if info is None:
            self.check_alive()
            raise AttemptFailure(Failure.SERVER_STALLED, "GET /server_info gave no answer")
        return compare(self._requested, info, self._command.environment)

    def check_alive(self) -> None:
        code = self._process.poll()
        if code is None:
            return
        self._log.read()
        found = diagnose(self._log.telling, self._log.progress.phase, code)
        holders = port_holders(self._port) if found.failure is Failure.PORT_BUSY else ""
        lost = f"first to end: {self._vigil.first_lost}" if self._vigil.first_lost else ""
        raise found.as_failure("".join(f"; {words}" for words in (holders, lost) if words))

    def watch(self) -> None:
        if self._process.poll() is not None or not self._vigil.lingers():
            return
        self._lingers = True
        lost = f"{self._vigil.first_lost} ended" if self._vigil.first_lost else "it said that it would end"
        found = diagnose(self._log.telling, self._log.progress.phase)
        raise found.as_failure(f"; {lost}, and {self._limits.fatal_s:g} s later its other processes still ran")

    def explain(self, error: str) -> AttemptFailure | None:
        # A request that broke because the server ended is seen before the end itself.
        deadline = time.monotonic() + self._limits.fatal_s
        while time.monotonic() < deadline:
            self.check_alive()
            time.sleep(_POLL_S)
        self._log.read()
        found = from_lines([*self._log.telling, error], self._log.progress.phase)
        return None if found is None else found.as_failure()

    def flush_cache(self) -> None:
        deadline = time.monotonic() + self._limits.flush_s
        while True:
            with contextlib.suppress(OSError):
                if ask(self.url, "POST", "/flush_cache").status == 200:
                    return
            self.check_alive()
            if time.monotonic() > deadline:
                raise AttemptFailure(
                    Failure.SERVER_STALLED, f"the cache could not be flushed: busy for {self._limits.flush_s:g} s"
                )
            time.sleep(_POLL_S)

    def stop(self) -> str:
        if self._ended is None:
            # One that waits for core dumps does not hear SIGTERM.
            self._ended = end(self._process, self._family, self._port, self._limits, hears=not self._lingers)
            self._output.close()
        return self._ended
