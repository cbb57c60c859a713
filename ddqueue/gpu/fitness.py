"""Whether GPUs may be used, and whether they are idle: decided once, for the clean-room proof and for the doctor."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddqueue.ports import GpuReading
from ddqueue.processes import command_line

IDLE_MEMORY_MIB = 128
"""More than an idle GPU shows beyond what its driver reserves (0 to 16 MiB), less than the smallest CUDA context (some
250 MiB): so a process that cannot be seen, in another container, still counts."""

IDLE_UTILIZATION_PERCENT = 5
"""Monitoring alone was never above it; one kernel that runs is 100."""


def count_problem(readings: Sequence[GpuReading], gpus: int) -> str | None:
    """What is wrong with the number of GPUs; None when as many answer as the inventory says."""
    if len(readings) == gpus:
        return None
    seen = f"{len(readings)} GPUs answer, the inventory says {gpus}"
    if len(readings) < gpus:
        return f"{seen}: {', '.join(_short(reading) for reading in readings) or 'none is left'}"
    return f"{seen}: correct `gpus:`, or name those to use in the worker's CUDA_VISIBLE_DEVICES"


def kind_problems(readings: Sequence[GpuReading], kind: str) -> list[str]:
    """One line for each GPU that is not of the kind the inventory names."""
    return [
        f"GPU {reading.index} is a {reading.name}, the inventory says {kind}"
        for reading in readings
        if not is_kind(reading.name, kind)
    ]


def is_kind(name: str, kind: str) -> bool:
    """Whether the driver's `name` holds the words of `kind`, together and whole: `NVIDIA H200 NVL` is an H200, and an
    `NVIDIA H200` is no H20."""
    words, wanted = _words(name), _words(kind)
    return any(words[start : start + len(wanted)] == wanted for start in range(len(words) - len(wanted) + 1))


def trouble_lines(readings: Sequence[GpuReading]) -> list[str]:
    """One line for each trouble of each GPU."""
    return [f"{_short(reading)}: {trouble.text}" for reading in readings for trouble in reading.troubles]


def unfit(readings: Sequence[GpuReading], gpus: int, kind: str) -> list[str]:
    """Every reason not to use these GPUs; empty = as many as the inventory says, of its kind, whole and healthy."""
    count = count_problem(readings, gpus)
    return [*([count] if count else []), *kind_problems(readings, kind), *trouble_lines(readings)]


def is_idle(reading: GpuReading) -> bool:
    """No process, no memory beyond an idle GPU's, nothing computed lately; what cannot be read is not idle."""
    return (
        not reading.pids
        and reading.memory_used_mib <= IDLE_MEMORY_MIB
        and reading.utilization_percent is not None
        and reading.utilization_percent <= IDLE_UTILIZATION_PERCENT
    )


def describe_use(reading: GpuReading) -> str:
    """Who uses the GPU and how much of it, as far as can be seen."""
    who = ", ".join(f"pid {pid} ({command_line(pid) or 'not visible'})" for pid in reading.pids) or "no visible process"
    busy = "unknown" if reading.utilization_percent is None else f"{reading.utilization_percent}%"
    return f"{_short(reading)}: {reading.memory_used_mib} MiB used, utilisation {busy}, by {who}"


def _short(reading: GpuReading) -> str:
    return f"GPU {reading.index} ({reading.uuid})"


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())
