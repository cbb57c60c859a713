"""A log's bytes as clean lines: decoded, without escape codes, each of bounded length.

The stream holds ANSI colours, carriage-return progress bars without newlines, and bytes that are no UTF-8; a character
or an escape code may be split between two reads, and a line may never end.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import NamedTuple

LONGEST_LINE = 4000
"""Characters kept of a line; the rest of a longer one is dropped."""

_LONGEST_RAW = 2 * LONGEST_LINE
"""Kept while a line is unfinished: its escape codes are still in it."""

_BREAK = re.compile(r"([\r\n])")
_ESCAPE = re.compile(r"\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b\[[0-9;?]*[A-Za-z]|\x1b[@-_]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_GLUED = re.compile(r"(?<=(?:it/s|s/it)\])(?=\S)")
"""A bar has no newline, so what another process prints next stands in the same line."""


class NumberedLine(NamedTuple):
    """`number` counts newlines from 1, as an editor does; all states of one progress bar share a number."""

    number: int
    text: str


class LineSplitter:
    """Splits a stream that comes in arbitrary pieces; how it is cut changes nothing."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""
        self._number = 1

    def feed(self, data: bytes) -> Iterator[NumberedLine]:
        """The lines that `data` completes, without the empty ones."""
        pieces = _BREAK.split(self._decoder.decode(data))
        for piece, end in zip(pieces[0::2], [*pieces[1::2], ""], strict=True):
            self._rest += piece[: _LONGEST_RAW - len(self._rest)]
            if not end:
                continue
            yield from self._clean()
            self._rest = ""
            self._number += end == "\n"

    @property
    def unfinished(self) -> list[NumberedLine]:
        """What stands behind the last line's end, as if it ended there."""
        return list(self._clean())

    def _clean(self) -> Iterator[NumberedLine]:
        if not self._rest:
            return
        text = _ESCAPE.sub("", self._rest) if "\x1b" in self._rest else self._rest
        text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
        for part in _GLUED.split(text) if "it]" in text or "/s]" in text else [text]:
            if part.strip():
                yield NumberedLine(self._number, part[:LONGEST_LINE].rstrip())
