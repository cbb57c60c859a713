"""Which of a machine's GPUs are the host's: all, unless the worker's CUDA_VISIBLE_DEVICES names some.

CUDA's own reading of that variable stops in silence at the first name it does not know, and leaves a server with fewer
GPUs than it was asked to use. Here every name must be a whole GPU, and the order said is not kept: servers get the GPUs
in PCI order, so that rank 3 is the same GPU in every attempt. Numbers count in PCI order too, the driver's own; CUDA's
default, fastest first, differs from it only on a box with GPUs of several kinds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.ports import GpuInspector, GpuReading

VARIABLE = "CUDA_VISIBLE_DEVICES"


class VisibleGpus:
    """Another inspector's GPUs, those alone that `spelling` names; a GpuInspector."""

    def __init__(self, inspector: GpuInspector, spelling: str) -> None:
        self._inspector = inspector
        self._spelling = spelling

    def read(self) -> list[GpuReading]:
        """Raises AttemptFailure(GPU_LOST) when a name is no whole GPU of this machine, or when none is named."""
        readings = self._inspector.read()
        chosen = _chosen(self._spelling, readings)
        return [reading for reading in readings if reading.index in chosen]

    def describe(self) -> Mapping[str, Any]:
        """All GPUs of the machine, as the other inspector describes them, and which of them are used."""
        return {**self._inspector.describe(), "used": [reading.uuid for reading in self.read()]}


def cuda_environment(readings: Sequence[GpuReading]) -> dict[str, str]:
    """The variables that show a server exactly these GPUs, in PCI order.

    By number, not by UUID: an engine may read the variable itself, and numbers are what it expects.
    """
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        VARIABLE: ",".join(str(reading.index) for reading in sorted(readings, key=lambda reading: reading.index)),
    }


def _chosen(spelling: str, readings: Sequence[GpuReading]) -> set[int]:
    names = [name.strip() for name in spelling.split(",") if name.strip()]
    if not names:
        raise _refusal(spelling, "it hides every GPU")
    chosen: set[int] = set()
    for name in names:
        index = _index(spelling, name, readings)
        if index in chosen:
            raise _refusal(spelling, f"it names GPU {index} twice")
        chosen.add(index)
    return chosen


def _index(spelling: str, name: str, readings: Sequence[GpuReading]) -> int:
    if name.startswith("MIG-"):
        raise _refusal(spelling, f"{name} is a MIG instance; a server needs whole GPUs")
    if name.isascii() and name.isdigit():
        found = [reading.index for reading in readings if reading.index == int(name)]
    else:
        # CUDA takes any beginning of a UUID that names one GPU only.
        found = [reading.index for reading in readings if name.startswith("GPU-") and reading.uuid.startswith(name)]
    if len(found) != 1:
        what = "names several GPUs of this machine" if found else "is no GPU of this machine"
        raise _refusal(spelling, f"{name} {what}, which has {', '.join(reading.uuid for reading in readings)}")
    return found[0]


def _refusal(spelling: str, why: str) -> AttemptFailure:
    return AttemptFailure(Failure.GPU_LOST, f"the worker's {VARIABLE}={spelling!r} cannot be used: {why}")
