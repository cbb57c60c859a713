"""Telemetry of simulated GPUs: numbers made of whether a simulated server computes, none of which was measured."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ddqueue.domain.telemetry import GpuSample, ThrottleReason
from ddqueue.sim.gpus import SimulatedGpus

MEMORY_CLOCK_MHZ = 12_000


@dataclass(frozen=True)
class Pace:
    """What a GPU shows in one state. The numbers are assumed: of the size that a 600 W card shows."""

    power_w: float
    sm_clock_mhz: int
    temperature_c: int
    throttle_reasons: tuple[ThrottleReason, ...] = ()


IDLE = Pace(60.0, 180, 35, (ThrottleReason.IDLE,))
BUSY = Pace(450.0, 2400, 65)
THROTTLED = Pace(280.0, 1200, 92, (ThrottleReason.HARDWARE_SLOWDOWN, ThrottleReason.HARDWARE_THERMAL))


class SimulatedTelemetryReader:
    """Reads the simulated GPUs of one directory. They have no energy counter."""

    def __init__(self, gpus: SimulatedGpus) -> None:
        self._gpus = gpus

    def read(self) -> list[GpuSample]:
        """One sample of each GPU, in PCI order. Raises AttemptFailure(GPU_LOST) as the GPUs' own reading does."""
        busy, throttled = self._gpus.busy(), self._gpus.faults.throttled()
        samples = []
        for gpu in self._gpus.read():
            under_load = THROTTLED if gpu.index in throttled else BUSY
            pace = under_load if gpu.index in busy else IDLE
            samples.append(
                GpuSample(
                    index=gpu.index,
                    uuid=gpu.uuid,
                    at_s=time.monotonic(),
                    power_w=pace.power_w,
                    sm_clock_mhz=pace.sm_clock_mhz,
                    memory_clock_mhz=MEMORY_CLOCK_MHZ,
                    temperature_c=pace.temperature_c,
                    memory_used_mib=gpu.memory_used_mib,
                    throttle_reasons=pace.throttle_reasons,
                )
            )
        return samples
