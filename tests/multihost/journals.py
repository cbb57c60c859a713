"""What lies on a box's disk and waits to be stored, read from outside."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ddqueue.storage import journal
from ddqueue.storage.entries import EntryKind

from .ledger import wait_until


def kept(path: Path) -> Counter[EntryKind]:
    """How many entries of each kind the journal holds; nothing for one that is just being made or was delivered."""
    try:
        found = journal.read(path)
    except FileNotFoundError:
        return Counter()
    return Counter(entry.kind for entry in found[1]) if found else Counter()


def wait_finished(path: Path) -> None:
    """Returns when the attempt has ended all its work, and only the storing remains."""
    wait_until(lambda: kept(path)[EntryKind.FINISH] == 1, f"the attempt of {path} never finished")


def wait_delivered(path: Path) -> None:
    """Returns when everything in it is stored: then the attempt removes it."""
    wait_until(lambda: not path.exists(), f"{path} was not delivered")
