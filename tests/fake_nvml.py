"""A module with the functions, structures and exceptions of `pynvml`, over GPUs that exist only in a list."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pynvml

MIB = 2**20


@dataclass
class FakeGpu:
    """What the driver would answer about one GPU. `raises` maps a function's name to the error code it raises."""

    uuid: str
    bus_id: str
    name: str = "NVIDIA H200"
    total_mib: int = 143771
    reserved_mib: int = 600
    used_mib: int = 4
    utilization: int = 0
    compute_pids: list[int] = field(default_factory=list)
    graphics_pids: list[int] = field(default_factory=list)
    compute_mode: int = pynvml.NVML_COMPUTEMODE_DEFAULT
    mig: tuple[int, int] | None = (0, 0)
    remapped: tuple[int, int, int, int] = (0, 0, 0, 0)
    uncorrected: dict[int, int] = field(default_factory=dict)
    recovery: int = pynvml.NVML_GPU_RECOVERY_ACTION_NONE
    nvlinks: int = 0
    power_mw: int = 76_000
    power_averaged_mw: int = 75_000
    energy_mj: int = 5_000_000
    sm_clock_mhz: int = 345
    memory_clock_mhz: int = 345
    temperature_c: int = 31
    reasons: int = pynvml.nvmlClocksEventReasonGpuIdle
    lacks_fields: list[Any] = field(default_factory=list)
    raises: dict[str, int] = field(default_factory=dict)


class FakeNvml(ModuleType):
    """Pass it to NvmlInspector; change `gpus`, `init_error` and `opened` between calls."""

    def __init__(self, gpus: list[FakeGpu]) -> None:
        super().__init__("pynvml")
        self.gpus = gpus
        self.init_error: int | None = None
        self.opened = 0

    def __getattr__(self, name: str) -> Any:
        """Constants and exceptions are the real module's; a function is there only if it is defined or derived here."""
        if name.startswith(("NVML_", "NVMLError", "nvmlClocksEventReason")) or name == "nvmlMemory_v2":
            return getattr(pynvml, name)
        if name in _ANSWERS:
            answer = _ANSWERS[name]
            return lambda gpu, *arguments: answer(self._asked(gpu, name), *arguments)
        raise AttributeError(name)

    def nvmlInit(self) -> None:
        if self.init_error is not None:
            raise pynvml.NVMLError(self.init_error)
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.95.05"

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return 13000

    def nvmlDeviceGetCount(self) -> int:
        if self.opened < 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self._asked(self.gpus[index], "nvmlDeviceGetHandleByIndex")

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeGpu:
        if self.opened < 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        for gpu in self.gpus:
            if gpu.uuid == uuid:
                return self._asked(gpu, "nvmlDeviceGetHandleByUUID")
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu, version: int | None = None) -> SimpleNamespace:
        self._asked(gpu, "nvmlDeviceGetMemoryInfo")
        kept = 0 if version else gpu.reserved_mib  # version 1 counts the driver's own as used
        return SimpleNamespace(
            total=gpu.total_mib * MIB, reserved=gpu.reserved_mib * MIB, used=(gpu.used_mib + kept) * MIB
        )

    def _asked(self, gpu: FakeGpu, function: str) -> FakeGpu:
        if function in gpu.raises:
            raise pynvml.NVMLError(gpu.raises[function])
        return gpu


def _mig_mode(gpu: FakeGpu) -> list[int]:
    if gpu.mig is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return list(gpu.mig)


def _utilization(gpu: FakeGpu) -> SimpleNamespace:
    if gpu.mig is not None and gpu.mig[0]:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return SimpleNamespace(gpu=gpu.utilization, memory=0)


def _field_values(gpu: FakeGpu, fields: list[Any]) -> list[SimpleNamespace]:
    known = {
        pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: gpu.recovery,
        (pynvml.NVML_FI_DEV_POWER_INSTANT, pynvml.NVML_POWER_SCOPE_GPU): gpu.power_mw,
    }
    # A field that the driver lacks fails alone, not its call.
    codes = [pynvml.NVML_ERROR_NOT_SUPPORTED if field in gpu.lacks_fields else pynvml.NVML_SUCCESS for field in fields]
    values = [SimpleNamespace(uiVal=known[field]) for field in fields]
    return [SimpleNamespace(nvmlReturn=code, value=value) for code, value in zip(codes, values, strict=True)]


def _clock(gpu: FakeGpu, clock: int) -> int:
    return {pynvml.NVML_CLOCK_SM: gpu.sm_clock_mhz, pynvml.NVML_CLOCK_MEM: gpu.memory_clock_mhz}[clock]


def _link_state(gpu: FakeGpu, link: int) -> int:
    if link >= gpu.nvlinks:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return int(pynvml.NVML_FEATURE_ENABLED)


def _common_ancestor(gpu: FakeGpu, other: FakeGpu) -> int:
    """Buses below 80 hang on one NUMA node, the others on the other."""
    same_node = (gpu.bus_id.split(":")[1] < "80") == (other.bus_id.split(":")[1] < "80")
    return int(pynvml.NVML_TOPOLOGY_NODE if same_node else pynvml.NVML_TOPOLOGY_SYSTEM)


_ANSWERS: dict[str, Any] = {
    "nvmlDeviceGetUUID": lambda gpu: gpu.uuid,
    "nvmlDeviceGetName": lambda gpu: gpu.name,
    "nvmlDeviceGetPciInfo": lambda gpu: SimpleNamespace(busId=gpu.bus_id),
    "nvmlDeviceGetVbiosVersion": lambda gpu: "96.00.AF.00.01",
    "nvmlDeviceGetUtilizationRates": _utilization,
    "nvmlDeviceGetComputeRunningProcesses": lambda gpu: [SimpleNamespace(pid=pid) for pid in gpu.compute_pids],
    "nvmlDeviceGetGraphicsRunningProcesses": lambda gpu: [SimpleNamespace(pid=pid) for pid in gpu.graphics_pids],
    "nvmlDeviceGetMPSComputeRunningProcesses": lambda gpu: [],
    "nvmlDeviceGetComputeMode": lambda gpu: gpu.compute_mode,
    "nvmlDeviceGetMigMode": _mig_mode,
    "nvmlDeviceGetRemappedRows": lambda gpu: gpu.remapped,
    "nvmlDeviceGetRetiredPagesPendingStatus": lambda gpu: pynvml.NVML_FEATURE_DISABLED,
    "nvmlDeviceGetTotalEccErrors": lambda gpu, kind, counter: gpu.uncorrected.get(counter, 0),
    "nvmlDeviceGetFieldValues": _field_values,
    "nvmlDeviceGetClockInfo": _clock,
    "nvmlDeviceGetPowerUsage": lambda gpu: gpu.power_averaged_mw,
    "nvmlDeviceGetTotalEnergyConsumption": lambda gpu: gpu.energy_mj,
    "nvmlDeviceGetMaxClockInfo": lambda gpu, clock: 1980,
    "nvmlDeviceGetPowerManagementLimit": lambda gpu: 700000,
    "nvmlDeviceGetPowerManagementDefaultLimit": lambda gpu: 700000,
    "nvmlDeviceGetPersistenceMode": lambda gpu: pynvml.NVML_FEATURE_ENABLED,
    "nvmlDeviceGetCurrentEccMode": lambda gpu: pynvml.NVML_FEATURE_ENABLED,
    "nvmlDeviceGetTemperature": lambda gpu, sensor: gpu.temperature_c,
    "nvmlDeviceGetCurrentClocksEventReasons": lambda gpu: gpu.reasons,
    "nvmlDeviceGetCurrPcieLinkGeneration": lambda gpu: 5,
    "nvmlDeviceGetMaxPcieLinkGeneration": lambda gpu: 5,
    "nvmlDeviceGetCurrPcieLinkWidth": lambda gpu: 16,
    "nvmlDeviceGetMaxPcieLinkWidth": lambda gpu: 16,
    "nvmlDeviceGetNvLinkState": _link_state,
    "nvmlDeviceGetNvLinkVersion": lambda gpu, link: 4,
    "nvmlDeviceGetTopologyCommonAncestor": _common_ancestor,
}


def eight_gpus() -> list[FakeGpu]:
    """Eight GPUs, four on each of two NUMA nodes."""
    return [
        FakeGpu(uuid=f"GPU-{index}e0f4c2a-0000-4000-8000-00000000000{index}", bus_id=f"00000000:{bus}:00.0")
        for index, bus in enumerate(["18", "1A", "3A", "5D", "9A", "AB", "BA", "DB"])
    ]
