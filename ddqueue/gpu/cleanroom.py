"""Proof that a host's GPUs are fit and free, before a server starts and after it has gone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.gpu.fitness import describe_use, is_idle, unfit
from ddqueue.gpu.shared_memory import SharedMemory
from ddqueue.ports import GpuInspector, GpuReading

SHM_FREE_MIB = 64
"""What SGLang's ranks and NCCL were seen to need in /dev/shm, with room to spare."""

_POLL_S = 0.2


class GpuCleanRoom:
    """Polls with a deadline, never sleeps a fixed time: a process's end is not its memory's release.

    Used between taking and giving back the host's lock, so that whatever it cleans up is no living attempt's.
    """

    def __init__(
        self,
        inspector: GpuInspector,
        gpus: int,
        gpu_kind: str,
        wait_s: float,
        shared_memory: SharedMemory | None = None,
        shm_free_mib: int = SHM_FREE_MIB,
    ) -> None:
        """`gpus` whole GPUs of `gpu_kind` must be there, healthy and, within `wait_s`, idle."""
        self._inspector = inspector
        self._gpus = gpus
        self._gpu_kind = gpu_kind
        self._wait_s = wait_s
        self._shared_memory = shared_memory or SharedMemory()
        self._shm_free_mib = shm_free_mib

    def prove_clean(self, should_stop: Callable[[], None]) -> list[GpuReading]:
        # A former attempt may have died before it could clean up; its processes were ended when the lock was taken.
        self._shared_memory.remove_left()
        free = free_mib(self._shared_memory.folder)
        if free < self._shm_free_mib:
            raise AttemptFailure(
                Failure.SHM_FULL, f"{self._shared_memory.folder} has {free} MiB free, {self._shm_free_mib} are needed"
            )
        readings = self._wait_idle(Failure.GPU_BUSY, should_stop)
        self._shared_memory.snapshot()
        return readings

    def prove_released(self) -> list[GpuReading]:
        readings = self._wait_idle(Failure.GPU_NOT_RELEASED, lambda: None)
        self._shared_memory.remove_left()
        return readings

    def _wait_idle(self, failure: Failure, should_stop: Callable[[], None]) -> list[GpuReading]:
        deadline = time.monotonic() + self._wait_s
        while True:
            readings = self._inspector.read()
            problems = unfit(readings, self._gpus, self._gpu_kind)
            if problems:
                raise AttemptFailure(Failure.GPU_LOST, "; ".join(problems))
            busy = [reading for reading in readings if not is_idle(reading)]
            if not busy:
                return readings
            if time.monotonic() > deadline:
                raise AttemptFailure(failure, "; ".join(describe_use(reading) for reading in busy))
            should_stop()
            time.sleep(_POLL_S)


def free_mib(folder: str | os.PathLike[str]) -> int:
    """Room left for others than root on the file system of `folder`."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize // 2**20
