"""What this process's children use while they run: CPU time between two moments, and the most memory at once."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EVERY_S = 0.1
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


class Usage:
    """Samples of all descendants together, but for those that ran before; read it after the block of `watching`."""

    def __init__(self) -> None:
        self._before = {pid for pid, _, _ in _descendants(os.getpid())}
        self._moments: list[float] = []
        self._cpu_s: list[float] = []
        self._known: dict[int, float] = {}
        self.peak_rss_mib = 0.0
        """The largest sum of resident memory at one sample; what processes share counts for each."""

    def cpu_s(self, begun: float, ended: float) -> float:
        """User and system time between two moments of perf_counter, by straight lines between the samples."""
        return self._at(ended) - self._at(begun)

    def sample(self) -> None:
        """Look once. A process that has ended keeps what it had at its last sample."""
        resident = 0.0
        for pid, cpu_s, rss_mib in _descendants(os.getpid()):
            if pid not in self._before:
                self._known[pid] = cpu_s
                resident += rss_mib
        self._moments.append(time.perf_counter())
        self._cpu_s.append(sum(self._known.values()))
        self.peak_rss_mib = max(self.peak_rss_mib, resident)

    def _at(self, moment: float) -> float:
        after = min(max(bisect_right(self._moments, moment), 1), len(self._moments) - 1)
        (begun, before), (ended, then) = ((self._moments[n], self._cpu_s[n]) for n in (after - 1, after))
        share = min(max((moment - begun) / (ended - begun), 0.0), 1.0)
        return before + (then - before) * share


@contextmanager
def watching() -> Iterator[Usage]:
    """Sample every EVERY_S seconds within the block, and once at either end."""
    usage, stop = Usage(), threading.Event()

    def watch() -> None:
        while not stop.wait(EVERY_S):
            usage.sample()

    usage.sample()
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield usage
    finally:
        stop.set()
        thread.join()
        usage.sample()


def _descendants(root: int) -> Iterator[tuple[int, float, float]]:
    """Process id, CPU seconds and resident MiB of each."""
    found: dict[int, tuple[int, float, float]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                # The name, in brackets, may hold blanks.
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
            cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
            found[int(entry.name)] = (int(fields[1]), cpu_s, int(fields[21]) * _PAGE_MIB)
    inside = {root}
    before = 0
    while len(inside) > before:
        before = len(inside)
        inside |= {pid for pid, (parent, _, _) in found.items() if parent in inside}
    yield from ((pid, *found[pid][1:]) for pid in inside - {root} if pid in found)
