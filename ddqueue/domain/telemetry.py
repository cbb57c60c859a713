"""What the GPUs did while a point was measured: power, clocks, temperature, throttling, memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median, median_high

from ddqueue.domain.marks import Mark

LONGEST_STEP_S = 1.0
"""Between two readings further apart nobody knows what the GPU did: ten missed at the usual ten a second."""

GAPS_ALLOWED = 0.05
"""The share of a window that may lie in such gaps. A straight line through more of it would be an invention."""

DRIFT_SHARE = 0.02
"""More than two of the 15 MHz steps in which clocks move by themselves (1.5% at 2 GHz), and less than the 3% to which
repeats are wanted to agree: a drift that could by itself push them apart is seen."""

UNEVEN_SHARE = 0.05
"""Chips of one kind under one power limit differ by a few per cent in clock; a GPU that is further behind the middle
of its neighbours has a reason of its own, such as its place in the air flow."""

_READINGS_PER_THIRD = 3


class ThrottleReason(StrEnum):
    """Why a GPU's clocks are not higher, as the driver says."""

    IDLE = "idle"
    CLOCKS_SET = "application clocks"
    """Somebody has set them."""
    POWER_CAP = "power cap"
    """At the power limit, as many are under load."""
    SYNC_BOOST = "sync boost"
    """Held at the clock of the slowest of its group."""
    DISPLAY_CLOCKS = "display clocks"
    SOFTWARE_THERMAL = "software thermal slowdown"
    HARDWARE_SLOWDOWN = "hardware slowdown"
    """Half the clock or less: too hot, a power brake, or a draw beyond what fast protection allows."""
    HARDWARE_THERMAL = "hardware thermal slowdown"
    POWER_BRAKE = "power brake"
    """The box's power supply asks for less."""
    OTHER = "another reason"
    """One that this version does not know by name."""


THROTTLING = frozenset(
    {
        ThrottleReason.SOFTWARE_THERMAL,
        ThrottleReason.HARDWARE_SLOWDOWN,
        ThrottleReason.HARDWARE_THERMAL,
        ThrottleReason.POWER_BRAKE,
    }
)
"""Those that no healthy GPU gives under load."""


@dataclass(frozen=True)
class GpuSample:
    """One GPU at one moment; `at_s` is CLOCK_MONOTONIC. What the driver cannot say is null, never 0.

    `energy_mj` is the driver's own counter since it was loaded, in millijoules, where the GPU has one. A driver that
    cannot say why clocks are held down gives no reasons.
    """

    index: int
    uuid: str
    at_s: float
    power_w: float | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    memory_used_mib: int | None = None
    throttle_reasons: tuple[ThrottleReason, ...] = ()
    energy_mj: int | None = None


@dataclass(frozen=True)
class GpuWindow:
    """One GPU over exactly one measured window, of `samples` readings inside it.

    Means are over time (trapezoids), not over samples, and their ends are interpolated from the readings on both sides
    of each. `energy_j` is the rise of the driver's counter, interpolated likewise, or where there is none power
    integrated. All these are null when the window is not covered: see LONGEST_STEP_S and GAPS_ALLOWED. Extremes and
    `throttle_reasons` are those met in any sample inside.
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
    throttle_reasons: tuple[ThrottleReason, ...] = ()
    sm_clock_drift: float | None = None
    """Median SM clock of the window's last third / that of its first - 1; medians, because a GPU that is woken up takes
    a reading or two to reach its clock, which is no drift."""


Series = Sequence[tuple[float, float]]
"""(seconds, value) in order of time."""


def window_of(samples: Sequence[GpuSample], started_s: float, ended_s: float) -> tuple[GpuWindow, ...]:
    """Each GPU over the window from `started_s` to `ended_s` (CLOCK_MONOTONIC), in order of index.

    `samples` should reach beyond both ends, and may reach any distance. A GPU that was never read is left out.
    """
    by_gpu: dict[tuple[int, str], list[GpuSample]] = {}
    for sample in sorted(samples, key=lambda sample: sample.at_s):
        by_gpu.setdefault((sample.index, sample.uuid), []).append(sample)
    return tuple(_window(by_gpu[gpu], started_s, ended_s) for gpu in sorted(by_gpu))


def marks_of(windows: Sequence[GpuWindow]) -> tuple[Mark, ...]:
    """What a person should know of the GPUs in this window. `windows` are those of the GPUs that the server occupies:
    an idle one beside them would count as uneven."""
    reasons = {reason for window in windows for reason in window.throttle_reasons}
    found = {
        Mark.THROTTLED: bool(reasons & THROTTLING),
        Mark.POWER_CAPPED: ThrottleReason.POWER_CAP in reasons,
        Mark.CLOCK_DRIFT: any(abs(window.sm_clock_drift or 0.0) > DRIFT_SHARE for window in windows),
        Mark.UNEVEN_CLOCKS: _is_uneven([window.sm_clock_mean_mhz for window in windows]),
    }
    return tuple(mark for mark, holds in found.items() if holds)


def _window(samples: Sequence[GpuSample], started_s: float, ended_s: float) -> GpuWindow:
    inside = [sample for sample in samples if started_s <= sample.at_s <= ended_s]
    power_w = _series(samples, lambda sample: sample.power_w)
    power_mean_w = _mean(power_w, started_s, ended_s)
    counted_mj = _rise(_series(samples, lambda sample: sample.energy_mj), started_s, ended_s)
    if counted_mj is not None:
        energy_j: float | None = counted_mj / 1000
    else:
        energy_j = None if power_mean_w is None else power_mean_w * (ended_s - started_s)
    sm_clocks = [sample.sm_clock_mhz for sample in inside if sample.sm_clock_mhz is not None]
    met = {reason for sample in inside for reason in sample.throttle_reasons}
    return GpuWindow(
        index=samples[0].index,
        uuid=samples[0].uuid,
        samples=len(inside),
        power_mean_w=power_mean_w,
        power_max_w=max((sample.power_w for sample in inside if sample.power_w is not None), default=None),
        energy_j=energy_j,
        sm_clock_mean_mhz=_mean(_series(samples, lambda sample: sample.sm_clock_mhz), started_s, ended_s),
        sm_clock_min_mhz=min(sm_clocks, default=None),
        sm_clock_max_mhz=max(sm_clocks, default=None),
        memory_clock_mean_mhz=_mean(_series(samples, lambda sample: sample.memory_clock_mhz), started_s, ended_s),
        temperature_max_c=max((one.temperature_c for one in inside if one.temperature_c is not None), default=None),
        memory_used_max_mib=max(
            (one.memory_used_mib for one in inside if one.memory_used_mib is not None), default=None
        ),
        throttle_reasons=tuple(reason for reason in ThrottleReason if reason in met),
        sm_clock_drift=_drift(inside, started_s, ended_s),
    )


def _series(samples: Sequence[GpuSample], value: Callable[[GpuSample], float | None]) -> Series:
    return [(sample.at_s, number) for sample in samples if (number := value(sample)) is not None]


def _mean(series: Series, started_s: float, ended_s: float) -> float | None:
    """The mean over time; None when the readings do not reach both ends, or leave too large gaps between them."""
    steps = _steps(series, started_s, ended_s)
    if steps is None:
        return None
    area = sum((value + next_value) / 2 * (next_s - at_s) for (at_s, value), (next_s, next_value) in pairwise(steps))
    return area / (ended_s - started_s)


def _rise(series: Series, started_s: float, ended_s: float) -> float | None:
    """How much a counter rose; None as for a mean, and for one that went back or stood still, which counts nothing."""
    steps = _steps(series, started_s, ended_s)
    if steps is None or any(next_value < value for (_, value), (_, next_value) in pairwise(steps)):
        return None
    return (steps[-1][1] - steps[0][1]) or None


def _steps(series: Series, started_s: float, ended_s: float) -> Series | None:
    """The readings inside the window between its two interpolated ends; None where they do not cover it."""
    if ended_s <= started_s or not series or series[0][0] > started_s or series[-1][0] < ended_s:
        return None
    unknown_s = sum(
        min(next_s, ended_s) - max(at_s, started_s)
        for (at_s, _), (next_s, _) in pairwise(series)
        if next_s - at_s > LONGEST_STEP_S and next_s > started_s and at_s < ended_s
    )
    if unknown_s > GAPS_ALLOWED * (ended_s - started_s):
        return None
    inside = [(at_s, value) for at_s, value in series if started_s < at_s < ended_s]
    return [(started_s, _at(series, started_s)), *inside, (ended_s, _at(series, ended_s))]


def _at(series: Series, moment_s: float) -> float:
    """The value at a moment between two readings, or at one."""
    before_s, before = max(reading for reading in series if reading[0] <= moment_s)
    after_s, after = min(reading for reading in series if reading[0] >= moment_s)
    if after_s == before_s:
        return after
    return before + (after - before) * (moment_s - before_s) / (after_s - before_s)


def _drift(inside: Sequence[GpuSample], started_s: float, ended_s: float) -> float | None:
    third_s = (ended_s - started_s) / 3
    clocks = [(sample.at_s, sample.sm_clock_mhz) for sample in inside if sample.sm_clock_mhz is not None]
    first = [clock for at_s, clock in clocks if at_s <= started_s + third_s]
    last = [clock for at_s, clock in clocks if at_s >= ended_s - third_s]
    if min(len(first), len(last)) < _READINGS_PER_THIRD or median(first) == 0:
        return None
    return median(last) / median(first) - 1


def _is_uneven(clocks_mhz: Sequence[float | None]) -> bool:
    known = [clock for clock in clocks_mhz if clock is not None]
    return len(known) > 1 and min(known) < (1 - UNEVEN_SHARE) * median_high(known)
