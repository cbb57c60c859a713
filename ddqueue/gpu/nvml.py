"""Real GPUs, read through NVML; nothing is ever set."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeVar

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.gpu.nvml_description import describe_gpu, said
from ddqueue.gpu.nvml_health import troubles_of
from ddqueue.gpu.topology import describe_topology
from ddqueue.ports import GpuReading, GpuTrouble, TroubleKind

Value = TypeVar("Value")


class NvmlInspector:
    """Reads every GPU of the machine in PCI order, which is NVML's own, whatever CUDA_VISIBLE_DEVICES says.

    NVML stays open between readings: without persistence mode the driver lets go of a GPU when its last client leaves,
    and a GPU just woken up reads as busy, so that one that is polled would never be seen idle.
    """

    def __init__(self, nvml: ModuleType | None = None) -> None:
        """`nvml` is the module `pynvml`, or one with the same functions and exceptions."""
        self._given = nvml
        self._open: Any = None

    def read(self) -> list[GpuReading]:
        """Raises AttemptFailure(GPU_LOST) when NVML or one GPU does not answer: an unreadable GPU is never idle."""
        return self._each(_reading)

    def describe(self) -> Mapping[str, Any]:
        """Driver, CUDA, every GPU's clocks, power, links and counters, and the topology between them."""
        gpus = self._each(describe_gpu)
        nvml = self._nvml()
        return {
            "driver": said(nvml, nvml.nvmlSystemGetDriverVersion),
            "cuda_driver": _cuda_version(said(nvml, nvml.nvmlSystemGetCudaDriverVersion)),
            "gpus": gpus,
            "topology": describe_topology(nvml, self._each(_handle)),
        }

    def close(self) -> None:
        """Let go of the driver; the next reading opens it again."""
        nvml, self._open = self._open, None
        if nvml is not None:
            with contextlib.suppress(nvml.NVMLError):
                nvml.nvmlShutdown()

    def _nvml(self) -> Any:
        if self._open is not None:
            return self._open
        nvml: Any = self._given or importlib.import_module("pynvml")
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            raise AttemptFailure(Failure.GPU_LOST, f"Failed to initialize NVML: {error}") from error
        self._open = nvml
        return nvml

    def _each(self, query: Callable[[Any, int, Any], Value]) -> list[Value]:
        """`query(nvml, index, handle)` of every GPU; whatever NVML raises is GPU_LOST and names the GPU."""
        nvml = self._nvml()
        where = "Unable to count the GPUs"
        try:
            values = []
            for index in range(nvml.nvmlDeviceGetCount()):
                where = f"Unable to determine the device handle for GPU {index}"
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                where = f"GPU {index} does not answer"
                values.append(query(nvml, index, handle))
        except nvml.NVMLError as error:
            self.close()  # so that a driver loaded anew is met afresh
            raise AttemptFailure(Failure.GPU_LOST, f"{where}: {error}") from error
        return values


def _reading(nvml: Any, index: int, handle: Any) -> GpuReading:
    # Version 2 tells what the driver reserves for itself (hundreds of MiB on large GPUs) from what somebody uses.
    memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    troubles = troubles_of(nvml, handle)
    utilization = _utilization_percent(nvml, handle)
    if utilization is None and not any(trouble.kind is TroubleKind.MIG for trouble in troubles):
        troubles += (GpuTrouble(TroubleKind.UNREADABLE, "the driver cannot say how busy it is ([N/A])"),)
    return GpuReading(
        index=index,
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        memory_total_mib=memory.total // 2**20,
        memory_used_mib=memory.used // 2**20,
        utilization_percent=utilization,
        pids=_pids(nvml, handle),
        pci_bus_id=_text(nvml.nvmlDeviceGetPciInfo(handle).busId),
        troubles=troubles,
    )


def _utilization_percent(nvml: Any, handle: Any) -> int | None:
    """None where the driver says `[N/A]`, as it does with MIG on."""
    try:
        return int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    except nvml.NVMLError_NotSupported:
        return None


def _pids(nvml: Any, handle: Any) -> tuple[int, ...]:
    found = {process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
    for others in (nvml.nvmlDeviceGetGraphicsRunningProcesses, nvml.nvmlDeviceGetMPSComputeRunningProcesses):
        # A GPU that cannot draw, or a driver without MPS, has no such processes.
        with contextlib.suppress(nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
            found |= {process.pid for process in others(handle)}
    return tuple(sorted(found))


def _handle(nvml: Any, index: int, handle: Any) -> Any:
    return handle


def _cuda_version(number: int | None) -> str | None:
    """`13.0` for 13000: the newest CUDA that this driver can run."""
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
