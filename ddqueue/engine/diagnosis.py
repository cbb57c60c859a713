"""Why a server died, hangs or did not start: a class and the line that decided, from its log, phase and exit code.

The exit code alone says little: a healthy server ends with -9 after SIGTERM, and so does one without room for its
KV cache. `Received sigquit from a child process` is never the cause.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.engine.findings import Finder, Finding
from ddqueue.engine.phases import SERVING, Progress
from ddqueue.engine.signs import exception_name

_USAGE_EXIT = 2


@dataclass(frozen=True)
class Diagnosis:
    """`evidence` is the deciding line, or the last lines when none decided, behind phase and exit code where the words
    explain nothing; `index` is the line's place among those given. `certain`: the server does not go on after this
    line, even while its parent lives and answers 503. `transient`: a fetch that may pass later, whatever the class's
    own policy says."""

    failure: Failure
    evidence: str
    index: int | None = None
    certain: bool = False
    transient: bool = False

    def as_failure(self, more: str = "") -> AttemptFailure:
        """What ends the attempt; `more` is added to the evidence."""
        return AttemptFailure(self.failure, self.evidence + more, self.transient)


def diagnose(lines: Sequence[str], phase: str, exit_code: int | None = None) -> Diagnosis:
    """Explain an ended server. `lines` are its log's telling ones, cleaned; `phase` is the last one it reached."""
    finder = _look_through(lines, phase)
    found = _decide(finder.findings)
    if found is not None and found.failure is Failure.SERVER_CRASHED:
        # The words do not explain it, so what is known of its end belongs to the evidence.
        return replace(found, evidence=f"{_end(phase, exit_code)}: {found.evidence}")
    if found is not None:
        return found
    if finder.stop_line is not None:
        return Diagnosis(Failure.SERVER_CRASHED, f"{_end(phase, exit_code)}, asked to stop: {finder.stop_line}")
    failure = Failure.BAD_ARGS if exit_code == _USAGE_EXIT else Failure.SERVER_CRASHED
    return Diagnosis(failure, f"{_end(phase, exit_code)}: {_last(lines)}")


def from_lines(lines: Iterable[str], phase: str) -> Diagnosis | None:
    """The class that the log's own words give, of a server that may still live; None when they decide nothing.

    A traceback that a serving process may have survived decides nothing here.
    """
    return _decide(
        one for one in _look_through(lines, phase).findings if one.certain or (one.explained and not one.late)
    )


def was_asked_to_stop(lines: Iterable[str]) -> bool:
    """Whether the log says that somebody ended the server; how it then exits is no news."""
    return _look_through(lines, SERVING).stop_line is not None


def of_silence(progress: Progress) -> Failure:
    """What a start that makes no progress is called, by where it stands."""
    if progress.compiler:
        return Failure.JIT_TIMEOUT
    return {
        "capture graphs": Failure.CAPTURE_HANG,
        "init distributed": Failure.NCCL_HANG,
        SERVING: Failure.SERVER_STALLED,
    }.get(progress.phase, Failure.READY_TIMEOUT)


def _look_through(lines: Iterable[str], phase: str) -> Finder:
    finder = Finder(phase)
    for line in lines:
        finder.take(line)
    return finder


def _decide(findings: Iterable[Finding]) -> Diagnosis | None:
    best = min(findings, key=lambda one: (one.weight, not one.certain, one.index), default=None)
    if best is None:
        return None
    return Diagnosis(best.failure, best.text, best.index, best.certain, best.transient)


def _last(lines: Sequence[str]) -> str:
    errors = [line for line in lines if exception_name(line.strip())]
    deciding = errors[-1].strip() if errors else " / ".join(line.strip() for line in lines[-3:])
    return deciding or "the log is empty"


def _end(phase: str, exit_code: int | None) -> str:
    """`in phase 'serving', exit code -9 (SIGKILL)`; 137 is a shell's word for the same."""
    if exit_code is None:
        return f"in phase '{phase}'"
    number = -exit_code if exit_code < 0 else exit_code - 128
    name = f" ({signal.Signals(number).name})" if number in set(signal.Signals) else ""
    return f"in phase '{phase}', exit code {exit_code}{name}"
