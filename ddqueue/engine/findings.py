"""Everything in a log that may be why its server failed, found line by line.

Where memory ran out is told by what the *same rank* did last, since other ranks may be ahead; whether a traceback is
the end of a process is told by the line that introduces it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from ddqueue.domain.failures import Failure
from ddqueue.engine.phases import BEFORE_FIRST, PHASES, SERVING, PhaseTracker, Stamped, phase_begun, take_apart
from ddqueue.engine.signs import Weight, exception_name, sign_at_start, sign_in_exception

_TRACEBACK = "Traceback (most recent call last)"
_PROCESS_ENDS = re.compile(
    r"\w+ hit an exception: Traceback|Initialization failed\. warmup error|Process [\w:-]+:$|\[rank\d+\]: ?Traceback"
)
"""SGLang's own words before it ends a process, multiprocessing's, and torch's hook for what nobody caught."""
_REQUEST_FAILS = re.compile(r"(?:ERROR: +)?Exception in ASGI application")
_STOP_ASKED = re.compile(r"SIGTERM received")
_ARGUMENTS_CHECKED = re.compile(r"\s+File \".*server_args\.py\", line")
_ASKED_PORT = re.compile(r"server_args=.*?[( ]port=(\d+)")
_BOUND_PORT = re.compile(r"Uvicorn running on \w+://\S*?:(\d+)")

_LOADING = (BEFORE_FIRST, "init distributed", "load weights")
_RUNNING = ("warm up", SERVING)
_TIMEOUTS = (Failure.SERVER_STALLED, Failure.READY_TIMEOUT)
_ARGUMENT_ERRORS = ("ValueError", "AssertionError", "TypeError", "KeyError")


class Block(Enum):
    """What the lines of a traceback belong to."""

    NONE = "none"
    MAYBE = "maybe"
    """A traceback that a process may have survived."""
    FATAL = "fatal"
    REQUEST = "request"
    """One request failed; the server goes on."""


@dataclass(frozen=True)
class Finding:
    """One line that may be the reason.

    `index` counts the lines taken, from 0. `certain`: no server goes on after this line, even if its parent lives.
    `late`: the server was serving already. `explained`: the words themselves name the class. `transient`: the same try
    may pass later. `block` numbers the traceback that the line belongs to.
    """

    index: int
    text: str
    failure: Failure
    weight: Weight
    certain: bool
    late: bool
    explained: bool
    transient: bool
    block: int


class Finder:
    """Takes the lines of one log in order. `phase` is what a rank did whose own lines do not say it."""

    def __init__(self, phase: str) -> None:
        self.findings: list[Finding] = []
        self.stop_line: str | None = None
        """The line that says that somebody asked the server to stop; what follows it is no failure."""
        self._phase = phase
        self._doing: dict[str, str] = {}
        self._tracker = PhaseTracker()
        self._index = -1
        self._text = ""
        self._block, self._block_number, self._block_rank = Block.NONE, 0, ""
        self._checks_arguments = False
        self._serving = False
        self._asked_port = ""

    def take(self, text: str) -> None:
        self._index += 1
        self._text = text.strip()
        if self.stop_line is not None:
            return
        line = take_apart(text)
        if _STOP_ASKED.match(line.body):
            self.stop_line = self._text
            return
        self._tracker.take(text)
        self._follow_block(line)
        self._follow_phase(line)
        if self._block is Block.REQUEST:
            return
        name = exception_name(line.body) if not line.stamp else None
        if name is not None:
            self._take_exception(text, name)
            return
        sign = sign_at_start(line.body, stamped=bool(line.stamp))
        if sign is not None:
            rank = line.rank or self._block_rank
            certain = sign.certain or self._block is Block.FATAL
            self._add(sign.failure, sign.weight, rank, certain=certain, transient=sign.transient)

    def _follow_block(self, line: Stamped) -> None:
        if _REQUEST_FAILS.match(line.body):
            self._open(Block.REQUEST, line.rank)
        elif _PROCESS_ENDS.match(line.body):
            self._open(Block.FATAL, line.rank)
        elif line.stamp:
            self._open(Block.MAYBE if _TRACEBACK in line.body else Block.NONE, line.rank)
        elif line.body.startswith(_TRACEBACK) and self._block is Block.NONE:
            self._open(Block.MAYBE, "")
        self._checks_arguments = self._checks_arguments or _ARGUMENTS_CHECKED.match(line.body) is not None

    def _open(self, block: Block, rank: str) -> None:
        self._block, self._block_rank = block, rank
        self._block_number += 1
        self._checks_arguments = False

    def _follow_phase(self, line: Stamped) -> None:
        asked = _ASKED_PORT.match(line.body)
        if asked:
            self._asked_port = asked.group(1)
        index = phase_begun(line.body)
        if index is None:
            return
        self._doing[line.rank] = PHASES[index][0]
        bound = _BOUND_PORT.search(line.body)
        if bound and self._asked_port and bound.group(1) != self._asked_port:
            self._add(Failure.PORT_BUSY, Weight.CAUSE, line.rank, certain=True)
        if PHASES[index][0] == SERVING:
            self._serving = True
            # Whatever was said before has been survived, but for a port: the warm-up may have reached its other owner.
            self.findings = [one for one in self.findings if one.certain or one.failure is Failure.PORT_BUSY]

    def _take_exception(self, text: str, name: str) -> None:
        certain, rank = self._block is Block.FATAL, self._block_rank
        sign = sign_in_exception(text)
        if sign is None and self._block is Block.NONE:
            return
        if sign is None or sign.weight is not Weight.ECHO:
            self._forget_unexplained()
        if sign is not None:
            self._add(sign.failure, sign.weight, rank, certain=certain, transient=sign.transient)
        elif self._activity(rank) == "capture graphs":
            self._add(Failure.CAPTURE_FAILED, Weight.CRASH, rank, certain=certain, explained=False)
        elif self._activity(rank) == BEFORE_FIRST and self._checks_arguments and name in _ARGUMENT_ERRORS:
            self._add(Failure.BAD_ARGS, Weight.CAUSE, rank, certain=certain)
        else:
            self._add(Failure.SERVER_CRASHED, Weight.CRASH, rank, certain=certain, explained=False)

    def _forget_unexplained(self) -> None:
        """The last error of a chain is the one that was raised in the end, and says most."""
        last = self.findings[-1] if self.findings else None
        if last is not None and last.block == self._block_number and not last.explained:
            self.findings.pop()

    def _add(
        self,
        failure: Failure | None,
        weight: Weight,
        rank: str,
        *,
        certain: bool,
        transient: bool = False,
        explained: bool = True,
    ) -> None:
        if failure is None:
            failure = _out_of_memory(self._activity(rank))
        if failure in _TIMEOUTS and self._tracker.progress.compiler:
            failure = Failure.JIT_TIMEOUT
        block = self._block_number if self._block is not Block.NONE else -1
        late = self._serving
        self.findings.append(
            Finding(self._index, self._text, failure, weight, certain, late, explained, transient, block)
        )

    def _activity(self, rank: str) -> str:
        parent = self._doing.get("")
        if parent in _RUNNING:
            return parent
        return self._doing.get(rank) or parent or self._phase


def _out_of_memory(doing: str) -> Failure:
    if doing in _LOADING:
        return Failure.OOM_LOAD
    if doing == "allocate KV cache":
        return Failure.KV_TOO_SMALL
    return Failure.OOM_RUN if doing in _RUNNING else Failure.OOM_CAPTURE
