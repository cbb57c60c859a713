"""Reading an SGLang log while it grows: lines, phases, progress.

The stream holds ANSI colours, carriage-return progress bars without newlines, and bytes that are no UTF-8; a character
may be split between two reads.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from dataclasses import dataclass
from pathlib import Path

PHASES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("init distributed", re.compile(r"Init torch distributed begin")),
    ("load weights", re.compile(r"Load weight begin")),
    ("allocate KV cache", re.compile(r"Load weight end|KV Cache is allocated")),
    ("capture graphs", re.compile(r"Capture .*CUDA graph begin|Capture cuda graph begin")),
    ("start HTTP", re.compile(r"max_total_num_tokens=")),
    ("warm up", re.compile(r"Uvicorn running on")),
    ("serving", re.compile(r"The server is fired up and ready to roll!")),
)
"""The server's phases in order, each with the line that begins it. The drafter's own loading repeats the first ones;
a phase once left is not entered again."""

BEFORE_FIRST = "start process"

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[@-_]")
_PROGRESS = re.compile(r"(\d+)%[^|]*\|[^|]*\|\s*(\d+/\d+)|(\d+)% Completed \|\s*(\d+/\d+)")
_TAIL_LINES = 400
_LONGEST_LINE = 4000


@dataclass(frozen=True)
class Progress:
    """Where the server is: the phase, and the last progress bar's words, e.g. `capture graphs`, `45% 9/20`."""

    phase: str
    text: str


class LogReader:
    """Follows one log file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""
        self._phase_index = -1
        self._bar = ""
        self._lines: deque[str] = deque(maxlen=_TAIL_LINES)

    @property
    def progress(self) -> Progress:
        phase = BEFORE_FIRST if self._phase_index < 0 else PHASES[self._phase_index][0]
        return Progress(phase, self._bar)

    @property
    def tail(self) -> list[str]:
        """The last lines, newest last, cleaned; an unfinished one counts."""
        return [*self._lines, *([self._rest[:_LONGEST_LINE]] if self._rest else [])]

    def read(self) -> bool:
        """Take in what is new; True when there was something."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return False
        if not data:
            return False
        self._offset += len(data)
        text = self._rest + _ESCAPE.sub("", self._decoder.decode(data))
        *lines, self._rest = re.split(r"[\r\n]", text)
        self._rest = self._rest[-_LONGEST_LINE:]
        for line in lines:
            self._take(line[:_LONGEST_LINE].replace("\0", "\N{REPLACEMENT CHARACTER}"))
        return True

    def _take(self, line: str) -> None:
        if not line.strip():
            return
        bar = _PROGRESS.search(line)
        if bar:
            percent, count, other_percent, other_count = bar.groups()
            self._bar = f"{percent or other_percent}% {count or other_count}"
            if self._lines and _PROGRESS.search(self._lines[-1]):
                self._lines.pop()  # Only the newest state of a bar is worth keeping.
        self._lines.append(line)
        for index in range(len(PHASES) - 1, self._phase_index, -1):
            if PHASES[index][1].search(line):
                self._phase_index = index
                self._bar = ""
                break
