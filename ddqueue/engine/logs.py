"""Reading an SGLang log of any length while it grows: how far the server is, and the lines that tell why it failed."""

from __future__ import annotations

import errno
import io
import os
import re
from collections import deque
from datetime import datetime
from pathlib import Path

from ddqueue.engine.engine_warnings import WarningList
from ddqueue.engine.log_lines import LineSplitter, NumberedLine
from ddqueue.engine.phases import (
    PHASES,
    PhaseBegin,
    PhaseTracker,
    Progress,
    bar_words,
    is_routine,
    phase_begun,
    take_apart,
)
from ddqueue.engine.signs import exception_name, sign_at_start

__all__ = ["PHASES", "LogReader", "LogText", "Progress"]

_TAIL_LINES = 400
_PHASE_LINES = 400
_FIRST_ERRORS = 400
_LAST_ERRORS = 200
_CHUNK_BYTES = 1 << 16

_OPENS_OR_ENDS = re.compile(
    r"Traceback \(most recent call last\)|hit an exception|Exception in ASGI|Process [\w:-]+:$|warmup error"
    r"|SIGTERM received|server_args=|server_args\.py\", line"
)
_ENDS = re.compile(r"SIGQUIT received\.|Subprocess \S+ \(pid=\d+\) crashed with|\w+ hit an exception: Traceback")
"""What SGLang says when it begins to end by itself; it answers nothing from then on."""
_FIRST_STEP = re.compile(r"\d+% 0/\d+")


class LogText:
    """What is kept of a log: where the server is, the end, and the telling lines; bounded, however long it is."""

    def __init__(self) -> None:
        self._splitter = LineSplitter()
        self._tracker = PhaseTracker()
        self._warnings = WarningList()
        self._taken = 0
        self._in_traceback = False
        self.announced_end = False
        """Whether the server has said that it is about to end by itself."""
        self._tail: deque[tuple[int, NumberedLine]] = deque(maxlen=_TAIL_LINES)
        self._phase_lines: list[tuple[int, NumberedLine]] = []
        self._first_errors: list[tuple[int, NumberedLine]] = []
        self._last_errors: deque[tuple[int, NumberedLine]] = deque(maxlen=_LAST_ERRORS)

    def feed(self, data: bytes) -> None:
        """Take in the next bytes; how the stream is cut changes nothing."""
        for line in self._splitter.feed(data):
            self._take(line)

    @property
    def progress(self) -> Progress:
        return self._tracker.after(line.text for line in self._splitter.unfinished)

    @property
    def compiling(self) -> bool:
        """Whether kernels are compiled now, and so silence may be work: a compiler said so, or graph capture is at its
        first step, which compiles what the others use (43 s of 44 were seen)."""
        progress = self.progress
        return bool(progress.compiler) or (
            progress.phase == "capture graphs" and _FIRST_STEP.match(progress.text) is not None
        )

    @property
    def compilations(self) -> int:
        """How many lines so far said that kernels are compiled."""
        return self._tracker.compilations

    @property
    def phases(self) -> list[PhaseBegin]:
        """The phases entered so far, in order."""
        return list(self._tracker.begun)

    @property
    def last_at(self) -> datetime | None:
        """The last time that the log says."""
        return self._tracker.last_at

    @property
    def notable(self) -> list[str]:
        """The engine's own warnings about its settings, each once."""
        return self._warnings.texts

    @property
    def tail(self) -> list[str]:
        """The last lines, newest last, cleaned; an unfinished one counts, and of a bar only the newest state."""
        return [line.text for _, line in self._tail] + [line.text for line in self._splitter.unfinished]

    @property
    def telling(self) -> list[str]:
        """The lines to diagnose from: those that began phases, those that look like errors, and the last ones."""
        return [line.text for line in self.telling_lines]

    @property
    def telling_lines(self) -> list[NumberedLine]:
        """`telling`, each with its place in the log."""
        kept = dict([*self._phase_lines, *self._first_errors, *self._last_errors, *self._tail])
        return [kept[place] for place in sorted(kept)] + self._splitter.unfinished

    def _take(self, line: NumberedLine) -> None:
        self._taken += 1
        kept, text = (self._taken, line), line.text
        if not self._in_traceback and not self._tracker.compiler and is_routine(text):
            self._tracker.note_time(text)
            self._tail.append(kept)
            return
        compiler = self._tracker.compiler
        self._tracker.take(text)
        is_bar = bool(bar_words(text))
        if is_bar and self._tail and bar_words(self._tail[-1][1].text):
            self._tail.pop()
        self._tail.append(kept)
        self._warnings.take(text)
        self.announced_end = self.announced_end or _announces_end(text)
        if not is_bar and phase_begun(text) is not None and len(self._phase_lines) < _PHASE_LINES:
            self._phase_lines.append(kept)
            self._in_traceback = False
        elif self._looks_telling(text) or self._tracker.compiler != compiler:
            if len(self._first_errors) < _FIRST_ERRORS:
                self._first_errors.append(kept)
            else:
                self._last_errors.append(kept)

    def _looks_telling(self, text: str) -> bool:
        if _OPENS_OR_ENDS.search(text):
            self._in_traceback = True
            return True
        line = take_apart(text)
        if line.stamp:
            # The first message after a traceback tells where it ended.
            was_in_traceback, self._in_traceback = self._in_traceback, False
            return was_in_traceback or sign_at_start(line.body, stamped=True) is not None
        return exception_name(text) is not None or sign_at_start(text, stamped=False) is not None


def _announces_end(text: str) -> bool:
    line = take_apart(text)
    return bool(line.stamp) and _ENDS.match(line.body) is not None


class LogReader(LogText):
    """Follows one log file; a file cut back to its start is read again from there."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._offset = 0

    def read(self) -> bool:
        """Take in what is new; True when there was something."""
        try:
            with self._path.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if size < self._offset:
                    self._offset = 0
                return self._read_to(file, size)
        except FileNotFoundError:
            return False

    def _read_to(self, file: io.FileIO, size: int) -> bool:
        """Not further than the size was when reading began: a server may write faster than this reads."""
        before = self._offset
        self._offset = _past_hole(file, self._offset, size)
        while self._offset < size:
            data = file.read(min(_CHUNK_BYTES, size - self._offset))
            if not data:
                break
            self.feed(data)
            self._offset = _past_hole(file, self._offset + len(data), size)
        return self._offset > before


def _past_hole(file: io.FileIO, offset: int, size: int) -> int:
    """The next byte at or after `offset` that is still on disk: the middle of a long log is given back while the
    server writes it. The file is positioned there."""
    try:
        return min(os.lseek(file.fileno(), offset, os.SEEK_DATA), size)
    except OSError as error:
        return size if error.errno == errno.ENXIO else file.seek(offset)
