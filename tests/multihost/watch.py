"""Watches, from outside, which attempt's server runs on which box: a job run twice at once shows here."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from ddqueue.gpu.ownership import LOCK_VARIABLE
from ddqueue.processes import carriers

from .history import History
from .ledger import wait_until

_EVERY_S = 0.25


class ServerWatch:
    """Looks four times a second, at the processes of every box at once: their kernel is this machine's.

    A server is named by the attempt's tag on its command line. What a look misses between two of them is no longer than
    a server takes to start.
    """

    def __init__(self, locks: Mapping[str, str], history: History) -> None:
        """`locks` maps a box to the path of its host's lock, which its servers carry in their environment."""
        self._locks = locks
        self._history = history
        self._seen: dict[str, list[str]] = {box: [] for box in locks}
        self._together: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> ServerWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    @property
    def together(self) -> list[str]:
        """Looks at which servers of two attempts ran on one box; must be empty."""
        return list(self._together)

    def tags(self, box: str) -> list[str]:
        """The attempts whose servers ran there, in the order in which they were first seen."""
        return list(self._seen[box])

    def now(self, box: str) -> list[int]:
        """The box's server processes, by this machine's pids."""
        return carriers(LOCK_VARIABLE, self._locks[box])

    def wait_gone(self, box: str) -> None:
        """Returns when no server process is left on the box."""
        wait_until(lambda: not self.now(box), f"servers stayed on {box}")

    def _run(self) -> None:
        running: dict[str, set[str]] = {box: set() for box in self._locks}
        while not self._over.is_set():
            for box in self._locks:
                tags = {tag for pid in self.now(box) if (tag := _tag(pid))}
                for tag in sorted(tags - running[box]):
                    self._history.note(f"server {tag} runs", box)
                    self._seen[box].append(tag)
                for tag in sorted(running[box] - tags):
                    self._history.note(f"server {tag} is gone", box)
                if len(tags) > 1:
                    self._together.append(f"{datetime.now(UTC):%H:%M:%S.%f} {box}: {sorted(tags)}")
                running[box] = tags
            time.sleep(_EVERY_S)


def _tag(pid: int) -> str:
    """The attempt's tag; empty for a process that is just ending, or is a server's helper."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return ""
    return words[words.index("--weight-version") + 1] if "--weight-version" in words[:-1] else ""
