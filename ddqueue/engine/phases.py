"""How far a server's start has come, from the lines of its log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from datetime import datetime

PHASES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("init distributed", re.compile(r"Init torch distributed begin")),
    ("load weights", re.compile(r"Load weight begin")),
    ("allocate KV cache", re.compile(r"Load weight end|KV Cache is allocated")),
    ("capture graphs", re.compile(r"Capture .{0,60}CUDA graph begin|Capture cuda graph begin")),
    ("start HTTP", re.compile(r"max_total_num_tokens=")),
    ("warm up", re.compile(r"Uvicorn running on")),
    ("serving", re.compile(r"The server is fired up and ready to roll!")),
)
"""The server's phases in order, each with the line that begins it. The drafter's own loading repeats the first ones;
a phase once left is not entered again."""

BEFORE_FIRST = "start process"
SERVING = PHASES[-1][0]

_PHASE_WORDS = ("begin", "Load weight end", "KV Cache is", "max_total_num_tokens=", "Uvicorn running", "fired up and")
"""Looking for plain words first keeps a long log quick to read: almost no line has one."""
_STAMP = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d+)?((?: [A-Z]{2,4}\d+)*)\] ?")
_ROUTINE = re.compile(r"\[20[^]]{17,50}\] (?:(?:Decode|Prefill) batch, |INFO: +[\w.:]+:\d+ - \")")
_NO_PHASE = re.compile(r"server_args=|GenerateReqInput\(")
"""Dumps, which hold what a person or a client wrote."""

_BAR = re.compile(r"(\d{1,3})%(?:[^|]{0,40}\|[^|]{0,400}\|| Completed \|)\s*(\d+/\d+)")
_BAR_SIZE = re.compile(r"\(((?:bs|num_tokens)=\d+)")

_COMPILES = re.compile(
    r"DeepGEMM JIT (?:Pre-Comp|Compiling)|DeepGEMM warmup:|flashinfer\.jit: (?:Loading|Compiling|Building)"
    r"|Compiling num tokens|Start compil|Compiling a graph|[Aa]utotuning process starts|Building extension module"
    r"|^\[\d+/\d+\] .*\b(?:nvcc|c\+\+|g\+\+|ninja)\b"
)
_COMPILE_WORDS = ("JIT", "jit", "ompil", "utotun", "DeepGEMM", "extension", "nvcc", "c++", "g++", "ninja")
_COMPILED = re.compile(r"Finished loading JIT|[Aa]utotuning process ends")


@dataclass(frozen=True)
class Stamped:
    """A line taken apart: `[2026-11-29 11:52:10 TP3] text`.

    `stamp` is its time as written, empty for a line that belongs to the one before it or that SGLang did not write;
    `rank` is e.g. `TP3`, `DP0 TP0`, or empty: the parent, or a server of one rank.
    """

    stamp: str
    rank: str
    body: str


@dataclass(frozen=True)
class Progress:
    """Where the server is: the phase, and the last progress bar's words, e.g. `capture graphs`, `45% 9/20 bs=24`.

    `compiler` is the line that says that kernels are compiled now, else empty.
    """

    phase: str
    text: str
    compiler: str = ""


@dataclass(frozen=True)
class PhaseBegin:
    """When a phase began, by the log's own clock (no time zone, whole seconds); None when it says no time."""

    phase: str
    at: datetime | None


def take_apart(text: str) -> Stamped:
    match = _STAMP.match(text)
    if match is None:
        return Stamped("", "", text)
    return Stamped(match.group(1), match.group(2).strip(), text[match.end() :])


def is_routine(text: str) -> bool:
    """Whether this is one of the lines that a serving server writes by the million."""
    return _ROUTINE.match(text) is not None


def phase_begun(text: str) -> int | None:
    """The index in PHASES of the phase that this line begins."""
    if not any(word in text for word in _PHASE_WORDS) or _NO_PHASE.search(text):
        return None
    return max((index for index, (_, pattern) in enumerate(PHASES) if pattern.search(text)), default=None)


def bar_words(text: str) -> str:
    """`45% 9/20 bs=24` for a line that holds a progress bar, else an empty string."""
    found = list(_BAR.finditer(text)) if "%" in text else []
    if not found:
        return ""
    size = _BAR_SIZE.search(text)
    return f"{found[-1].group(1)}% {found[-1].group(2)}" + (f" {size.group(1)}" if size else "")


class PhaseTracker:
    """Takes lines in order."""

    def __init__(self) -> None:
        self._index = -1
        self._bar = ""
        self.compiler = ""
        """The line that says that kernels are compiled now, else empty."""
        self.compilations = 0
        """How many lines said that kernels are compiled."""
        self._first_stamp, self._last_stamp = "", ""
        self._begun: list[tuple[str, str]] = []

    @property
    def progress(self) -> Progress:
        return Progress(BEFORE_FIRST if self._index < 0 else PHASES[self._index][0], self._bar, self.compiler)

    @property
    def begun(self) -> list[PhaseBegin]:
        """Phases in the order in which they were entered; the first one is BEFORE_FIRST."""
        first = PhaseBegin(BEFORE_FIRST, _time(self._first_stamp))
        return [first, *(PhaseBegin(phase, _time(stamp)) for phase, stamp in self._begun)]

    @property
    def last_at(self) -> datetime | None:
        """The last time that the log says."""
        return _time(self._last_stamp)

    def note_time(self, text: str) -> None:
        if text.startswith("[20"):
            self._last_stamp = text[:20]
            self._first_stamp = self._first_stamp or self._last_stamp

    def take(self, text: str) -> None:
        self.note_time(text)
        if is_routine(text):
            self.compiler = ""
            return
        bar = bar_words(text)
        index = None if bar else phase_begun(text)
        if any(word in text for word in _COMPILE_WORDS) and _COMPILES.search(text):
            self.compiler = "" if bar.startswith("100%") else text[:200]
            self.compilations += 1
        elif bar or index is not None or _COMPILED.search(text):
            self.compiler = ""
        if bar:
            self._bar = bar
        if index is not None and index > self._index:
            self._index, self._bar = index, ""
            self._begun.append((PHASES[index][0], self._last_stamp))

    def after(self, unfinished: Iterable[str]) -> Progress:
        """The progress with lines that have not ended yet, as a bar's newest state never has."""
        ahead = copy(self)
        ahead._begun = list(self._begun)
        for text in unfinished:
            ahead.take(text)
        return ahead.progress


def _time(stamp: str) -> datetime | None:
    try:
        return datetime.strptime(stamp, "[%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None
