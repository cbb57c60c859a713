"""A host's real GPUs as telemetry: seven short questions to NVML each, every one of which a GPU may leave open."""

from __future__ import annotations

import contextlib
import importlib
import time
from types import ModuleType
from typing import Any

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.telemetry import GpuSample, ThrottleReason
from ddqueue.gpu.nvml_description import said
from ddqueue.ports import GpuInspector, GpuReading


class NvmlTelemetryReader:
    """Reads the GPUs that `inspector` shows, which are found once; NVML stays open from then on."""

    def __init__(self, inspector: GpuInspector, nvml: ModuleType | None = None) -> None:
        """`nvml` is the module `pynvml`, or one with the same functions and exceptions."""
        self._inspector = inspector
        self._given = nvml
        self._open: Any = None
        self._gpus: list[tuple[GpuReading, Any]] = []

    def read(self) -> list[GpuSample]:
        """One sample of each GPU that answers, in PCI order.

        Raises:
            AttemptFailure: GPU_LOST, when NVML or none of the GPUs answers; the next reading opens NVML anew.
        """
        nvml = self._nvml()
        samples = []
        why = "there are no GPUs"
        for reading, handle in self._gpus:
            try:
                samples.append(_sample(nvml, reading, handle))
            except nvml.NVMLError as error:
                why = f"GPU {reading.index} does not answer: {error}"
        if not samples:
            self.close()
            raise AttemptFailure(Failure.GPU_LOST, why)
        return samples

    def close(self) -> None:
        """Let go of the driver; the next reading opens it again."""
        nvml, self._open = self._open, None
        if nvml is not None:
            with contextlib.suppress(nvml.NVMLError):
                nvml.nvmlShutdown()

    def _nvml(self) -> Any:
        if self._open is not None:
            return self._open
        readings = self._inspector.read()
        nvml: Any = self._given or importlib.import_module("pynvml")
        try:
            # NVML counts: the inspector's own session with it neither ends this one nor is ended by it.
            nvml.nvmlInit()
            self._open = nvml
            self._gpus = [(reading, nvml.nvmlDeviceGetHandleByUUID(reading.uuid)) for reading in readings]
        except nvml.NVMLError as error:
            self.close()
            raise AttemptFailure(Failure.GPU_LOST, f"NVML finds no GPUs for telemetry: {error}") from error
        return nvml


def _sample(nvml: Any, gpu: GpuReading, handle: Any) -> GpuSample:
    """Raises NVMLError when the GPU is lost; anything else it does not say is null."""
    at_s = time.monotonic()
    milliwatts = _power_mw(nvml, handle)
    memory = said(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
    return GpuSample(
        index=gpu.index,
        uuid=gpu.uuid,
        at_s=at_s,
        power_w=None if milliwatts is None else milliwatts / 1000,
        energy_mj=said(nvml, nvml.nvmlDeviceGetTotalEnergyConsumption, handle),
        sm_clock_mhz=said(nvml, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
        memory_clock_mhz=said(nvml, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
        temperature_c=said(nvml, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
        # Version 2 leaves out what the driver keeps for itself.
        memory_used_mib=None if memory is None else memory.used // 2**20,
        throttle_reasons=_reasons(nvml, said(nvml, nvml.nvmlDeviceGetCurrentClocksEventReasons, handle)),
    )


def _power_mw(nvml: Any, handle: Any) -> int | None:
    """The draw of this moment, where the driver knows that field.

    The older question is answered from Ampere on (GA100 excepted) with the mean of the last second, which smears one
    window into the next. Neither is complete: an H100 looks at its sensor for a quarter of the time (arXiv 2312.02741).
    """
    field = (nvml.NVML_FI_DEV_POWER_INSTANT, nvml.NVML_POWER_SCOPE_GPU)
    values = said(nvml, nvml.nvmlDeviceGetFieldValues, handle, [field])
    if values is not None and values[0].nvmlReturn == nvml.NVML_SUCCESS:
        return int(values[0].value.uiVal)
    milliwatts = said(nvml, nvml.nvmlDeviceGetPowerUsage, handle)
    return None if milliwatts is None else int(milliwatts)


_REASONS = {
    "nvmlClocksEventReasonGpuIdle": ThrottleReason.IDLE,
    "nvmlClocksEventReasonApplicationsClocksSetting": ThrottleReason.CLOCKS_SET,
    "nvmlClocksEventReasonSwPowerCap": ThrottleReason.POWER_CAP,
    "nvmlClocksEventReasonHwSlowdown": ThrottleReason.HARDWARE_SLOWDOWN,
    "nvmlClocksEventReasonSyncBoost": ThrottleReason.SYNC_BOOST,
    "nvmlClocksEventReasonSwThermalSlowdown": ThrottleReason.SOFTWARE_THERMAL,
    "nvmlClocksEventReasonHwThermalSlowdown": ThrottleReason.HARDWARE_THERMAL,
    "nvmlClocksEventReasonHwPowerBrakeSlowdown": ThrottleReason.POWER_BRAKE,
    "nvmlClocksEventReasonDisplayClockSetting": ThrottleReason.DISPLAY_CLOCKS,
}


def _reasons(nvml: Any, bits: int | None) -> tuple[ThrottleReason, ...]:
    """The reasons in NVML's bit mask; a bit without a name is OTHER, for NVML may learn new ones."""
    if bits is None:
        return ()
    named = [(getattr(nvml, name), reason) for name, reason in _REASONS.items()]
    found = [reason for bit, reason in named if bits & bit]
    if bits & ~sum(bit for bit, _ in named):
        found.append(ThrottleReason.OTHER)
    return tuple(found)
