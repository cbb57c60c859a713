"""Collects every mistake of one file, so that a person sees them all at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ddqueue.errors import FileError, FileProblem

MOST = 100
"""Nobody reads more, and a file that was not written by hand may hold tens of thousands."""


class Problems:
    """The mistakes found so far in `file`."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._found: dict[FileProblem, None] = {}

    def add(self, line: int, key: str, problem: str, remedy: str) -> None:
        """Note a mistake; the same one (a grid's value meets every cell) is noted once.

        Raises FileError, with those so far, when they are MOST.
        """
        self._found[FileProblem(self.file, line, key, problem, remedy)] = None
        if len(self._found) >= MOST:
            self.check()

    def __len__(self) -> int:
        return len(self._found)

    def check(self) -> None:
        """Raises FileError, in the order of the file's lines, when anything was noted."""
        if self._found:
            raise FileError(sorted(self._found, key=lambda problem: problem.line))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word a person most likely meant."""
    matches = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def suggestion(word: str, known: Iterable[str]) -> str:
    """A remedy for an unknown word: the nearest known one, or all of them."""
    words = sorted(known)
    guess = nearest(word, words)
    listed = ", ".join(words) or "none"
    return f"Did you mean {guess}?" if guess else f"Known here: {listed}."
