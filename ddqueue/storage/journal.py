"""The journal of one attempt: what it measured lies in a file on its host, synced, before it goes to Postgres.

A file a attempt, one JSON value a line: the term first, then entries in order. It is removed when the attempt's finish
is stored; a file that is still there belongs to an attempt that died or that could not deliver.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from ddqueue.storage.entries import Entry, Term

_SUFFIX = ".jsonl"
REFUSED_SUFFIX = ".refused"
"""Entries of an attempt whose fence was taken: kept for a person, delivered to nobody."""


class Journal:
    """Appends; not for two threads."""

    def __init__(self, folder: Path, term: Term) -> None:
        """Creates the file. Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"attempt-{term.attempt_id}{_SUFFIX}"
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            self._append(json.dumps(asdict(term)))
            _sync_folder(folder)
        except OSError:
            self.remove()
            raise

    def append(self, entry: Entry) -> None:
        """Returns when the entry is on disk. Raises OSError; then nothing of it is in the file."""
        self._append(entry.to_line())

    def remove(self) -> None:
        """Everything is stored elsewhere."""
        self.close()
        with contextlib.suppress(OSError):
            self.path.unlink()

    def close(self) -> None:
        """The file stays, for whoever delivers it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _append(self, line: str) -> None:
        before = os.lseek(self._file, 0, os.SEEK_END)
        data = line.encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._file, data) :]
            os.fsync(self._file)
        except OSError:
            # A full disk leaves half a line, and what is appended later would be unreadable with it.
            os.ftruncate(self._file, before)
            raise


def left_in(folder: Path) -> list[Path]:
    """The journals in the folder, oldest attempt first."""
    found = [path for path in folder.glob(f"attempt-*{_SUFFIX}") if path.is_file()]
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))


def read(path: Path) -> tuple[Term, list[Entry]] | None:
    """The term and the entries of a journal; None when not even the term can be read.

    A last line without its end was cut off by a crash: its writer never said that it was kept.
    """
    lines = _whole_lines(path)
    try:
        term = Term(**json.loads(next(lines)))
    except (StopIteration, ValueError, TypeError):
        return None
    entries = []
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            entries.append(Entry.from_line(line))
    return term, entries


def _whole_lines(path: Path) -> Iterator[str]:
    for line in path.read_bytes().split(b"\n")[:-1]:
        yield line.decode("utf-8", "replace")


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
