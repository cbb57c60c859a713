"""What the GPUs did while a point was measured: power, clocks, temperature, throttling, memory."""

from __future__ import annotations

from dataclasses import dataclass

from ddqueue.domain.marks import Mark as Mark  # the one enum of marks: judge with these, define no other


@dataclass(frozen=True)
class GpuSample:
    """One GPU at one moment; `at_s` is CLOCK_MONOTONIC. What the driver cannot say is null, never 0.

    `energy_mj` is the driver's own counter since it was loaded, in millijoules, where the GPU has one.
    """

    index: int
    uuid: str
    at_s: float
    power_w: float | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    memory_used_mib: int | None = None
    throttle_reasons: tuple[str, ...] = ()
    energy_mj: int | None = None


@dataclass(frozen=True)
class GpuWindow:
    """One GPU over exactly one measured window, of `samples` readings inside it.

    Means are over time (trapezoids), not over samples. `energy_j` is power integrated over the window, its ends
    interpolated. `throttle_reasons` are those met in any sample.
    """

    index: int
    uuid: str
    samples: int
    power_mean_w: float | None
    power_max_w: float | None
    energy_j: float | None
    sm_clock_mean_mhz: float | None
    sm_clock_min_mhz: int | None
    sm_clock_max_mhz: int | None
    memory_clock_mean_mhz: float | None
    temperature_max_c: int | None
    memory_used_max_mib: int | None
    throttle_reasons: tuple[str, ...] = ()
