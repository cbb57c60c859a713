"""One GPU as an attempt remembers it: enough to explain a slow night from the database alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def said(nvml: Any, query: Callable[..., Any], *arguments: Any) -> Any:
    """What the driver answers, as plain text or number; None where it cannot or will not say.

    Raises:
        NVMLError_GpuIsLost: then there is nothing to describe.
    """
    try:
        answer = query(*arguments)
    except nvml.NVMLError_GpuIsLost:
        raise
    except nvml.NVMLError:
        return None
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer


def describe_gpu(nvml: Any, index: int, handle: Any) -> dict[str, Any]:
    """Plain JSON values. Clocks in MHz, power in W, memory in MiB, temperature in degrees Celsius, link width in lanes.

    Raises:
        NVMLError: the GPU cannot say who it is; anything else it cannot say is null.
    """
    memory = said(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
    remapped = said(nvml, nvml.nvmlDeviceGetRemappedRows, handle)
    return {
        "index": index,
        "uuid": _text(nvml.nvmlDeviceGetUUID(handle)),
        "name": _text(nvml.nvmlDeviceGetName(handle)),
        "pci_bus_id": _text(nvml.nvmlDeviceGetPciInfo(handle).busId),
        "vbios": said(nvml, nvml.nvmlDeviceGetVbiosVersion, handle),
        "memory_total_mib": memory and memory.total // 2**20,
        "memory_reserved_mib": memory and memory.reserved // 2**20,
        "memory_used_mib": memory and memory.used // 2**20,
        "clocks_mhz": {
            name: {
                "current": said(nvml, nvml.nvmlDeviceGetClockInfo, handle, clock),
                "max": said(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, clock),
            }
            for name, clock in (("sm", nvml.NVML_CLOCK_SM), ("memory", nvml.NVML_CLOCK_MEM))
        },
        "power_limit_w": _watts(said(nvml, nvml.nvmlDeviceGetPowerManagementLimit, handle)),
        "power_limit_default_w": _watts(said(nvml, nvml.nvmlDeviceGetPowerManagementDefaultLimit, handle)),
        "persistence": _switch(said(nvml, nvml.nvmlDeviceGetPersistenceMode, handle)),
        "ecc": _switch(said(nvml, nvml.nvmlDeviceGetCurrentEccMode, handle)),
        "ecc_uncorrected_lifetime": said(
            nvml,
            nvml.nvmlDeviceGetTotalEccErrors,
            handle,
            nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            nvml.NVML_AGGREGATE_ECC,
        ),
        "rows_remapped": remapped and {"corrected": remapped[0], "uncorrected": remapped[1]},
        "temperature_c": said(nvml, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
        "throttled_by": _throttled_by(nvml, handle),
        "pci_link": {
            "generation": said(nvml, nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
            "generation_max": said(nvml, nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
            "width": said(nvml, nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
            "width_max": said(nvml, nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
        },
    }


_THROTTLE_REASONS = {
    "nvmlClocksEventReasonSwPowerCap": "power cap",
    "nvmlClocksEventReasonHwSlowdown": "hardware slowdown",
    "nvmlClocksEventReasonSwThermalSlowdown": "software thermal slowdown",
    "nvmlClocksEventReasonHwThermalSlowdown": "hardware thermal slowdown",
    "nvmlClocksEventReasonHwPowerBrakeSlowdown": "power brake",
}
"""Those that make a GPU slower than its neighbours; idle and clocks that somebody has set are none."""


def _throttled_by(nvml: Any, handle: Any) -> list[str] | None:
    reasons = said(nvml, nvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    if reasons is None:
        return None
    return [word for name, word in _THROTTLE_REASONS.items() if reasons & getattr(nvml, name)]


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _switch(state: int | None) -> bool | None:
    return None if state is None else bool(state)


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
