"""What this process itself took, and had to wait for, between two moments."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

_SCHEDSTAT = Path("/proc/self/schedstat")
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Waiting:
    """`run_queue_s`: ready to run, and without a CPU. `turns`: how often the process was given one."""

    run_queue_s: float
    turns: int


@dataclass(frozen=True)
class OwnCost:
    """`cpu_s` is user and system time; `waiting` is None where the kernel does not tell it."""

    cpu_s: float
    waiting: Waiting | None

    @classmethod
    def so_far(cls) -> OwnCost:
        """Since the process began."""
        cpu_s = time.process_time()
        try:
            # Of the main thread; the load client has no other.
            _, waited_ns, turns = map(int, _SCHEDSTAT.read_text().split())
        except (OSError, ValueError):
            return cls(cpu_s, None)
        return cls(cpu_s, Waiting(waited_ns / 1e9, turns))

    def since(self, before: OwnCost) -> OwnCost:
        """What was added since `before`."""
        cpu_s = self.cpu_s - before.cpu_s
        if self.waiting is None or before.waiting is None:
            return OwnCost(cpu_s, None)
        waited_s = self.waiting.run_queue_s - before.waiting.run_queue_s
        return OwnCost(cpu_s, Waiting(waited_s, self.waiting.turns - before.waiting.turns))

    def figures(self) -> dict[str, float]:
        """As they are stored with a run; what is unknown is left out. `run_queue_mean_ms` is by how much the average
        turn, and so what was read in it, came late."""
        figures = {"cpu_s": round(self.cpu_s, 4)}
        if self.waiting is not None:
            figures["run_queue_s"] = round(self.waiting.run_queue_s, 4)
            figures["run_queue_mean_ms"] = round(self.waiting.run_queue_s * 1000 / max(1, self.waiting.turns), 4)
        return figures


def peak_memory() -> dict[str, float]:
    """The most that this process has held in memory, in MiB, as it is stored with a run; nothing where it is unknown.

    From the kernel's high-water mark of this program: the one in `getrusage` begins with that of whoever started it.
    """
    try:
        lines = _STATUS.read_text().splitlines()
        kib = next(line.split()[1] for line in lines if line.startswith("VmHWM:"))
        return {"peak_rss_mib": round(int(kib) / 1024, 1)}
    except (OSError, StopIteration, ValueError):
        return {}
