"""From a launched process to a server that provably is ours and generates.

A 200 proves little: it may come from an older server on the port, from a server whose first generation never ends, or
from one that runs something else. So every poll looks at the process, its log, the port's owner and two clocks.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.queueing import PhaseRecord
from ddqueue.engine.diagnosis import Diagnosis, from_lines, of_silence
from ddqueue.engine.family import Family
from ddqueue.engine.http import Pending, Reply, server_info
from ddqueue.engine.limits import StartLimits
from ddqueue.engine.listeners import Listener, listeners
from ddqueue.engine.logs import LogReader
from ddqueue.engine.phases import bar_words

FIRST_GENERATION = "first generation"

_POLL_S = 0.1
_STILL_S = 60.0
"""Silence that is worth telling whoever watches, and looking for compilers."""
_LOOK_EVERY_S = 1.0
"""A look at every process of a large host takes tens of milliseconds."""

_LONGEST_SHOWN = 200

_PROMPT = {"text": "Once upon a time", "sampling_params": {"max_new_tokens": 4, "ignore_eos": True}}

_OUR_QUESTIONS = re.compile(r'"GET /(health|server_info|get_server_info) ')


class StartingServer(Protocol):
    """What is watched while it starts."""

    @property
    def url(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def tag(self) -> str: ...

    @property
    def log(self) -> LogReader: ...

    @property
    def family(self) -> Family: ...

    def check_alive(self) -> None:
        """Raises AttemptFailure, diagnosed, when the parent has ended."""
        ...


class Readiness:
    """One wait for one server. Whatever `should_stop` raises ends the wait."""

    def __init__(
        self,
        server: StartingServer,
        limits: StartLimits,
        progress: Callable[[str, str], None],
        should_stop: Callable[[], None],
    ) -> None:
        now_s = time.monotonic()
        self._server = server
        self._limits = limits
        self._tell = progress
        self._should_stop = should_stop
        self._deadline_s = now_s + limits.total_s
        self._moved_s = now_s
        self._seen: object = None
        self._fatal: _Fatal | None = None
        self._port_is_ours = False
        self._strangers = 0
        self._compiled = ""
        self._looked_s, self._running_compilers = now_s - _LOOK_EVERY_S, ""
        self._generating = False
        self._phases = PhaseClock()

    def wait(self) -> list[PhaseRecord]:
        """Return the phases of the start once a real generation has returned tokens.

        Raises:
            AttemptFailure: the class and what decided it.
        """
        while not (self._is_healthy() and self._carries_our_tag()):
            self._watch()
            time.sleep(_POLL_S)
        self._generate()
        return self._phases.close()

    def _watch(self) -> None:
        """What every poll looks at; raises when the start is over."""
        self._should_stop()
        log = self._server.log
        if log.read():
            self._take_in()
        phase, text = (FIRST_GENERATION, "") if self._generating else (log.progress.phase, log.progress.text)
        self._phases.enter(phase)
        self._server.check_alive()
        now_s = time.monotonic()
        if self._fatal is not None and now_s > self._fatal.deadline_s:
            raise self._fatal.found.as_failure()
        quiet_s = now_s - self._moved_s
        compiler = self._compiler(quiet_s)
        if self._compiled and not compiler:
            # What it was silent for is done.
            self._moved_s, quiet_s = now_s, 0.0
        self._compiled = compiler
        compiling = "compiling" if compiler else ""
        still = f"nothing new for {quiet_s // _STILL_S:.0f} min" if quiet_s > _STILL_S else ""
        self._tell(phase, ", ".join(word for word in (text, compiling, still) if word))
        if now_s > self._deadline_s:
            failure = Failure.JIT_TIMEOUT if compiler else Failure.READY_TIMEOUT
            raise AttemptFailure(failure, self._where(f"not ready after {self._limits.total_s:g} s"))
        limit_s = self._limits.compile_s if compiler or log.compiling else self._limits.no_progress_s
        if quiet_s > limit_s:
            raise AttemptFailure(self._silence(compiler), self._where(f"no progress for {limit_s:g} s"))

    def _take_in(self) -> None:
        """New output: has the server moved, and has it said something that ends its start?"""
        log = self._server.log
        lines = log.tail
        # A bar that is drawn again at the same step has not moved, and a line that our own polling made says nothing.
        words = next((line for line in reversed(lines) if not (_OUR_QUESTIONS.search(line) or bar_words(line))), "")
        seen = (log.progress, words)
        if seen != self._seen:
            self._seen, self._moved_s = seen, time.monotonic()
        found = from_lines(log.telling, log.progress.phase)
        if found is not None and not (found.certain or self._server.family.has_dead_child()):
            # Healthy servers log tracebacks of what they can do without; a child that died of one is another matter.
            found = None
        if found is None:
            self._fatal = None
        elif self._fatal is None or self._fatal.reached != log.progress:
            # A step onwards after it means that it was not fatal: the clock starts anew.
            self._fatal = _Fatal(found, log.progress, time.monotonic() + self._limits.fatal_s)

    def _compiler(self, quiet_s: float) -> str:
        """What compiles now, by the log or, once that has been silent for a while, by the processes that run."""
        said = self._server.log.progress.compiler
        if said or quiet_s < min(_STILL_S, self._limits.no_progress_s):
            return said
        now_s = time.monotonic()
        if now_s > self._looked_s + _LOOK_EVERY_S:
            self._looked_s, self._running_compilers = now_s, " ".join(self._server.family.compilers())
        return self._running_compilers

    def _silence(self, compiler: str) -> Failure:
        if compiler:
            return Failure.JIT_TIMEOUT
        return Failure.READY_TIMEOUT if self._generating else of_silence(self._server.log.progress)

    def _is_healthy(self) -> bool:
        try:
            reply = self._ask("GET", "/health")
        except OSError:
            return False
        self._refuse_strangers()
        return reply.status == 200 and not self._strangers

    def _refuse_strangers(self) -> None:
        """Somebody answered on our port: it must be a process of ours, whatever it says."""
        if self._port_is_ours:
            return
        found = listeners([self._server.port])
        ours = set(self._server.family.members())
        strangers = [one for one in found if one.pid is None or one.pid not in ours]
        if found and not strangers:
            self._port_is_ours = True
            return
        # Seen twice: a process that ends between the two readings leaves a socket without an owner.
        self._strangers = self._strangers + 1 if strangers else 0
        if self._strangers > 1:
            self._server.check_alive()
            raise AttemptFailure(Failure.PORT_BUSY, _held_by(self._server.port, strangers))

    def _carries_our_tag(self) -> bool:
        info = server_info(lambda path: self._ask("GET", path))
        if info is None:
            return False
        if info.get("weight_version") != self._server.tag:
            raise AttemptFailure(
                Failure.PORT_BUSY,
                f"{self._server.url} carries the tag {_shown(info.get('weight_version'))}, not {self._server.tag!r}",
            )
        return True

    def _generate(self) -> None:
        """One real generation, which must return tokens and carry our tag, within what is left of the total."""
        self._watch()
        self._generating, self._moved_s = True, time.monotonic()
        self._watch()
        try:
            reply = self._ask("POST", "/generate", _PROMPT, self._limits.total_s)
        except OSError as error:
            raise self._failed_generation(f"{type(error).__name__}: {error}") from error
        answer = reply.json()
        meta = answer.get("meta_info") if isinstance(answer, dict) else None
        tokens = meta.get("completion_tokens") if isinstance(meta, dict) else None
        if reply.status != 200 or not isinstance(meta, dict) or not isinstance(tokens, int) or tokens <= 0:
            raise self._failed_generation(f"{reply.status}: {reply.body[:200].decode('utf-8', 'replace')}")
        if meta.get("weight_version", self._server.tag) != self._server.tag:
            raise AttemptFailure(
                Failure.PORT_BUSY,
                f"an answer of {self._server.url} carries the tag {_shown(meta['weight_version'])}, "
                f"not {self._server.tag!r}",
            )

    def _failed_generation(self, error: str) -> AttemptFailure:
        """A connection that breaks is often the first sign of a server that is about to end: its end says more."""
        deadline_s = time.monotonic() + self._limits.fatal_s
        while time.monotonic() < deadline_s:
            self._watch()
            time.sleep(_POLL_S)
        found = from_lines([*self._server.log.telling, error], self._server.log.progress.phase)
        if found is not None:
            return found.as_failure()
        return AttemptFailure(Failure.SERVER_STALLED, f"the first generation failed: {error}")

    def _ask(self, method: str, path: str, payload: Any = None, timeout_s: float | None = None) -> Reply:
        """Ask and watch meanwhile. Raises OSError, and AttemptFailure when the start is over before the answer."""
        request = Pending(self._server.url, method, path, payload, timeout_s or self._limits.request_s)
        while not request.answered(_POLL_S):
            self._watch()
        return request.result()

    def _where(self, what: str) -> str:
        log = self._server.log
        phase = FIRST_GENERATION if self._generating else log.progress.phase
        last = log.tail[-1].strip() if log.tail else "the log is empty"
        return f"{what}, in phase '{phase}'{f' at {log.progress.text}' if log.progress.text else ''}: {last}"


def _shown(value: Any) -> str:
    """What somebody else's server says may be of any size."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def port_holders(port: int) -> str:
    """Who holds the port now, for the evidence of a server that could not have it; empty when nobody does."""
    found = listeners([port])
    return _held_by(port, found) if found else ""


def _held_by(port: int, holders: list[Listener]) -> str:
    return f"port {port} is held by {', '.join(str(one) for one in holders)}"


@dataclass(frozen=True)
class _Fatal:
    found: Diagnosis
    reached: object
    """How far the start was when the words came."""
    deadline_s: float


class PhaseClock:
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
