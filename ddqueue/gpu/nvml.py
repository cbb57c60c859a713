"""Real GPUs, read through NVML; nothing is ever set."""

from __future__ import annotations

from typing import Any

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.ports import GpuReading


class NvmlInspector:
    """Reads every GPU of the machine in PCI order, whatever CUDA_VISIBLE_DEVICES says."""

    def read(self) -> list[GpuReading]:
        """Raises AttemptFailure(GPU_LOST) when NVML or one GPU does not answer: an unreadable GPU is never idle."""
        import pynvml as nvml

        try:
            nvml.nvmlInit()
            try:
                return [_reading(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
            finally:
                nvml.nvmlShutdown()
        except nvml.NVMLError as error:
            raise AttemptFailure(Failure.GPU_LOST, f"NVML: {error}") from error


def _reading(nvml: Any, index: int) -> GpuReading:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    running = [*nvml.nvmlDeviceGetComputeRunningProcesses(handle), *nvml.nvmlDeviceGetGraphicsRunningProcesses(handle)]
    return GpuReading(
        index=index,
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        memory_total_mib=memory.total // 2**20,
        memory_used_mib=memory.used // 2**20,
        utilization_percent=nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        pids=tuple(sorted({process.pid for process in running})),
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
