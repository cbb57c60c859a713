"""Whether a server that serves goes on doing so: what it says of its own end, and which of its ranks are gone.

When one rank of several dies, SGLang keeps its port and every open connection for more than a minute: it waits for the
core dumps of the ranks that still live. No request is ever answered again, and none is broken off.
"""

from __future__ import annotations

import time

from ddqueue.engine.family import Family
from ddqueue.engine.logs import LogReader
from ddqueue.processes import is_alive

_LOOK_EVERY_S = 0.5


class Vigil:
    """Begins with the first look, when every rank is there."""

    def __init__(self, log: LogReader, family: Family, fatal_s: float) -> None:
        """`fatal_s`: how long a dying server may take to end, before it counts as one that does not."""
        self._log = log
        self._family = family
        self._fatal_s = fatal_s
        self._ranks: dict[tuple[int, int], str] | None = None
        self._next_look_s = 0.0
        self._dying_since_s: float | None = None
        self.first_lost = ""
        """The ranks that were gone while others lived, in words; empty when none was seen so."""

    def lingers(self) -> bool:
        """Whether the server has been dying for too long. Cheap enough to be asked several times a second."""
        now_s = time.monotonic()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + _LOOK_EVERY_S
            if not self._is_dying():
                self._dying_since_s = None
            elif self._dying_since_s is None:
                self._dying_since_s = now_s
        return self._dying_since_s is not None and now_s > self._dying_since_s + self._fatal_s

    def _is_dying(self) -> bool:
        if self._ranks is None:
            self._ranks = self._family.ranks()
        lost = [f"{title} (pid {pid})" for (pid, ticks), title in self._ranks.items() if not is_alive(pid, ticks)]
        if lost and not self.first_lost and len(lost) < len(self._ranks):
            self.first_lost = ", ".join(lost)
        self._log.read()
        return bool(lost) or self._log.announced_end
