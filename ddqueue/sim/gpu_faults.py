"""Faults of simulated GPUs: what a sick box shows to whoever reads it, without a sick box."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.ports import GpuReading, GpuTrouble, TroubleKind

_FILE = "faults.json"


class GpuFault(StrEnum):
    """What is wrong; all but the first with one GPU."""

    NO_DRIVER = "no-driver"
    """The driver's library does not start."""
    NO_HANDLE = "no-handle"
    """The GPU is counted, and has fallen off the bus."""
    MISSING = "missing"
    """The GPU is not counted any more."""
    LOST = "lost"
    """An Xid 79: the GPU does not answer."""
    XID = "xid"
    """The driver asks for a reset after an Xid."""
    ROW_REMAP = "row-remap"
    ECC = "ecc"
    MIG = "mig"
    EXCLUSIVE = "exclusive"
    """Compute mode exclusive process."""
    BUSY = "busy"
    """Something computes on it that shows neither memory nor a process."""
    THROTTLE = "throttle"
    """It gets too hot under load and slows itself down; nothing is against using it."""


_TROUBLES = {
    GpuFault.XID: GpuTrouble(TroubleKind.RECOVERY, "the driver asks for a reset of the GPU"),
    GpuFault.ROW_REMAP: GpuTrouble(TroubleKind.ROW_REMAP, "a row remap is pending until a reset"),
    GpuFault.ECC: GpuTrouble(TroubleKind.ECC, "1 uncorrectable ECC errors since the driver was loaded"),
    GpuFault.MIG: GpuTrouble(TroubleKind.MIG, "MIG is enabled"),
    GpuFault.EXCLUSIVE: GpuTrouble(TroubleKind.COMPUTE_MODE, "compute mode is exclusive process, not default"),
}


@dataclass(frozen=True)
class GpuFaults:
    """The faults of the GPUs in one directory; they last until they are mended, like real ones."""

    directory: Path

    def add(self, fault: GpuFault, gpu: int = 0) -> None:
        self._write([*self._read(), (fault, gpu)])

    def mend(self) -> None:
        """As a reset or a new board would: all faults are gone."""
        self._write([])

    def throttled(self) -> set[int]:
        """The GPUs that slow themselves down under load."""
        return {gpu for fault, gpu in self._read() if fault is GpuFault.THROTTLE}

    def show(self, readings: Sequence[GpuReading]) -> list[GpuReading]:
        """What a driver would answer in place of `readings`. Raises AttemptFailure(GPU_LOST) when it would not."""
        shown = list(readings)
        for fault, gpu in self._read():
            match fault:
                case GpuFault.NO_DRIVER:
                    raise AttemptFailure(Failure.GPU_LOST, "Failed to initialize NVML: Unknown Error")
                case GpuFault.NO_HANDLE:
                    what = f"Unable to determine the device handle for GPU {gpu}: Unknown Error"
                    raise AttemptFailure(Failure.GPU_LOST, what)
                case GpuFault.LOST:
                    raise AttemptFailure(Failure.GPU_LOST, f"GPU {gpu} does not answer: GPU is lost")
                case GpuFault.MISSING:
                    shown = [reading for reading in shown if reading.index != gpu]
                case GpuFault.THROTTLE:
                    pass  # only telemetry shows it
                case _:
                    shown = [_faulty(reading, fault) if reading.index == gpu else reading for reading in shown]
        return shown

    def _write(self, faults: Sequence[tuple[GpuFault, int]]) -> None:
        path = self.directory / _FILE
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(faults))
        temporary.replace(path)

    def _read(self) -> list[tuple[GpuFault, int]]:
        try:
            text = (self.directory / _FILE).read_text()
        except FileNotFoundError:
            return []
        return [(GpuFault(fault), gpu) for fault, gpu in json.loads(text)]


def _faulty(reading: GpuReading, fault: GpuFault) -> GpuReading:
    if fault is GpuFault.BUSY:
        return replace(reading, utilization_percent=100)
    changed = replace(reading, troubles=(*reading.troubles, _TROUBLES[fault]))
    # With MIG on, the driver says [N/A].
    return replace(changed, utilization_percent=None) if fault is GpuFault.MIG else changed
