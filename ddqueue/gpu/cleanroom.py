"""Proof that a host's GPUs are free: memory at its idle baseline, no process, room in /dev/shm."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.ports import GpuInspector, GpuReading
from ddqueue.processes import command_line

_POLL_S = 0.2


class GpuCleanRoom:
    """Polls with a deadline, never sleeps a fixed time: a process's end is not its memory's release."""

    def __init__(
        self,
        inspector: GpuInspector,
        gpus: int,
        wait_s: float,
        idle_memory_mib: int = 600,
        shm_free_mib: int = 64,
    ) -> None:
        """`idle_memory_mib` is what a driver keeps on an idle GPU; above it the GPU counts as used."""
        self._inspector = inspector
        self._gpus = gpus
        self._wait_s = wait_s
        self._idle_memory_mib = idle_memory_mib
        self._shm_free_mib = shm_free_mib

    def prove_clean(self, should_stop: Callable[[], None]) -> list[GpuReading]:
        free = _free_mib("/dev/shm")
        if free < self._shm_free_mib:
            raise AttemptFailure(Failure.SHM_FULL, f"/dev/shm has {free} MiB free, {self._shm_free_mib} are needed")
        return self._wait_idle(Failure.GPU_BUSY, should_stop)

    def prove_released(self) -> list[GpuReading]:
        return self._wait_idle(Failure.GPU_NOT_RELEASED, lambda: None)

    def _wait_idle(self, failure: Failure, should_stop: Callable[[], None]) -> list[GpuReading]:
        deadline = time.monotonic() + self._wait_s
        while True:
            readings = self._inspector.read()
            if len(readings) < self._gpus:
                raise AttemptFailure(Failure.GPU_LOST, f"{len(readings)} GPUs answer, the inventory says {self._gpus}")
            busy = [reading for reading in readings if self._busy(reading)]
            if not busy:
                return readings
            if time.monotonic() > deadline:
                raise AttemptFailure(failure, "; ".join(_described(reading) for reading in busy))
            should_stop()
            time.sleep(_POLL_S)

    def _busy(self, reading: GpuReading) -> bool:
        return bool(reading.pids) or reading.memory_used_mib > self._idle_memory_mib


def _described(reading: GpuReading) -> str:
    who = ", ".join(f"pid {pid} ({command_line(pid) or 'not visible'})" for pid in reading.pids) or "no visible process"
    return f"GPU {reading.index} ({reading.uuid}): {reading.memory_used_mib} MiB used by {who}"


def _free_mib(folder: str) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize // 2**20
