"""GPUs that exist only as files: who holds how much of which, and who computes, across processes and crashes.

A directory holds `gpus.json` (what GPUs there are), one file per GPU and holder, and one per process that computes.
Memory counts while the holder lives, and for a while after it was first seen dead, because on a real box too the end of
a process is not yet the release of its memory. Files appear by atomic rename, so that a reader never sees half of one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.ports import GpuReading
from ddqueue.processes import is_alive, start_ticks
from ddqueue.sim.gpu_faults import GpuFaults

RELEASE_LAG_S = 0.3
NEVER_S = 1e12
"""A release lag that outlives the machine."""

_DESCRIPTION = "gpus.json"


class SimulatedGpus:
    """The simulated GPUs of one directory; a GpuInspector."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.faults = GpuFaults(directory)

    @classmethod
    def create(
        cls,
        directory: Path,
        count: int,
        name: str,
        memory_total_mib: int,
        release_lag_s: float | None = None,
    ) -> SimulatedGpus:
        """Describe `count` equal GPUs in `directory`, anew if there were others. What their holders have stays.

        `release_lag_s` is how long memory outlives its holder; none leaves what was said before, else RELEASE_LAG_S.
        """
        directory.mkdir(parents=True, exist_ok=True)
        if release_lag_s is None:
            before = _read(directory / _DESCRIPTION) or {}
            release_lag_s = before.get("release_lag_s", RELEASE_LAG_S)
        description = {
            "name": name,
            "memory_total_mib": memory_total_mib,
            "release_lag_s": release_lag_s,
            "uuids": [f"GPU-sim-{directory.name}-{index}" for index in range(count)],
        }
        _write(directory / _DESCRIPTION, description)
        return cls(directory)

    @property
    def count(self) -> int:
        """Raises AttemptFailure(GPU_LOST) when the description cannot be read."""
        return len(self._description()["uuids"])

    def read(self) -> list[GpuReading]:
        """Every GPU now. Raises AttemptFailure(GPU_LOST) when the description cannot be read, or by a fault."""
        description = self._description()
        used_mib = [0] * len(description["uuids"])
        pids: list[list[int]] = [[] for _ in used_mib]
        for path in sorted(self._directory.glob("holder-*.json")):
            record = _read(path)
            if record is None or not 0 <= record["gpu"] < len(used_mib):
                continue
            if is_alive(record["pid"], record["start_ticks"]):
                pids[record["gpu"]].append(record["pid"])
            elif _has_released(path, record, description["release_lag_s"]):
                continue
            used_mib[record["gpu"]] += record["mib"]
        readings = [
            GpuReading(
                index,
                uuid,
                description["name"],
                description["memory_total_mib"],
                used_mib[index],
                0,
                tuple(pids[index]),
                f"00000000:{index:02X}:00.0",
            )
            for index, uuid in enumerate(description["uuids"])
        ]
        return self.faults.show(readings)

    def describe(self) -> Mapping[str, Any]:
        """Only what a simulated GPU has; nothing here was measured."""
        return {
            "driver": None,
            "cuda_driver": None,
            "gpus": [
                {
                    "index": reading.index,
                    "uuid": reading.uuid,
                    "name": reading.name,
                    "pci_bus_id": reading.pci_bus_id,
                    "memory_total_mib": reading.memory_total_mib,
                    "memory_used_mib": reading.memory_used_mib,
                }
                for reading in self.read()
            ],
            "topology": None,
        }

    def hold(self, gpu: int, mib: int, pid: int, release_after_s: float | None = None) -> None:
        """The process `pid` now holds `mib` of the GPU, in place of what it held before.

        `release_after_s` is how long the memory outlives the process; none means the directory's own lag.
        """
        ticks = start_ticks(pid)
        if ticks is None:
            raise ProcessLookupError(pid)
        record = {"gpu": gpu, "pid": pid, "start_ticks": ticks, "mib": mib, "release_after_s": release_after_s}
        _write(self._directory / f"holder-{gpu}-{pid}-{ticks}.json", record)

    def work(self, gpus: Sequence[int], pid: int, is_busy: bool) -> None:
        """The process `pid` now computes on these GPUs, or does no more."""
        path = self._directory / f"busy-{pid}.json"
        if is_busy:
            _write(path, {"gpus": list(gpus), "pid": pid, "start_ticks": start_ticks(pid)})
        else:
            path.unlink(missing_ok=True)

    def busy(self) -> set[int]:
        """The GPUs on which a live process computes."""
        found: set[int] = set()
        for path in self._directory.glob("busy-*.json"):
            record = _read(path)
            if record is None:
                continue
            if is_alive(record["pid"], record["start_ticks"]):
                found.update(record["gpus"])
            else:
                path.unlink(missing_ok=True)
        return found

    def forget_dead(self) -> None:
        """Release what dead processes still hold, as a reset by a person would."""
        for path in self._directory.glob("holder-*.json"):
            record = _read(path)
            if record is not None and not is_alive(record["pid"], record["start_ticks"]):
                path.unlink(missing_ok=True)

    @contextmanager
    def foreign(self, gpu: int, mib: int) -> Iterator[int]:
        """A real process that is no part of ddqueue holds `mib` of the GPU; yields its pid."""
        holder = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(3600)"])
        try:
            self.hold(gpu, mib, holder.pid)
            yield holder.pid
        finally:
            holder.kill()
            holder.wait()

    def _description(self) -> dict[str, Any]:
        path = self._directory / _DESCRIPTION
        description = _read(path)
        if description is None or "uuids" not in description:
            raise AttemptFailure(Failure.GPU_LOST, f"{path} cannot be read: no simulated GPUs")
        return description


def _has_released(path: Path, record: Mapping[str, Any], lag_s: float) -> bool:
    """Whether a dead holder's memory is back; notes when it was first seen dead, removes it when it is over."""
    now_s = time.monotonic()
    dead_since_s = record.get("dead_since_s")
    if dead_since_s is None:
        _write(path, {**record, "dead_since_s": now_s})
        return False
    after_s = record["release_after_s"]
    if now_s - dead_since_s < (lag_s if after_s is None else after_s):
        return False
    path.unlink(missing_ok=True)
    return True


def _write(path: Path, value: Mapping[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(value))
    temporary.replace(path)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
