"""What NVML says against using a GPU. Only a query that this kind of GPU lacks counts as no trouble."""

from __future__ import annotations

from typing import Any

from ddqueue.ports import GpuTrouble, TroubleKind

_COMPUTE_MODES = {1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
_RECOVERY_ACTIONS = {
    1: "a reset of the GPU",
    2: "a reboot of the machine",
    3: "the end of its peer-to-peer traffic",
    4: "to be drained and reset",
    5: "the IMEX domain's recovery",
    6: "a reset of the bus",
    7: "a reboot of the system",
}


def troubles_of(nvml: Any, handle: Any) -> tuple[GpuTrouble, ...]:
    """Every reason not to use the GPU, most binding first.

    Raises:
        NVMLError: a query failed for another reason than that this GPU or driver does not know it.
    """
    found = []
    for query in (_mig, _compute_mode, _recovery, _row_remap, _retired_pages, _ecc):
        try:
            trouble = query(nvml, handle)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
            continue
        if trouble is not None:
            found.append(trouble)
    return tuple(found)


def _mig(nvml: Any, handle: Any) -> GpuTrouble | None:
    current, pending = nvml.nvmlDeviceGetMigMode(handle)
    if current == nvml.NVML_DEVICE_MIG_ENABLE:
        return GpuTrouble(TroubleKind.MIG, "MIG is enabled")
    if pending == nvml.NVML_DEVICE_MIG_ENABLE:
        return GpuTrouble(TroubleKind.MIG, "MIG will be enabled by the next reset")
    return None


def _compute_mode(nvml: Any, handle: Any) -> GpuTrouble | None:
    mode = nvml.nvmlDeviceGetComputeMode(handle)
    if mode == nvml.NVML_COMPUTEMODE_DEFAULT:
        return None
    return GpuTrouble(TroubleKind.COMPUTE_MODE, f"compute mode is {_COMPUTE_MODES.get(mode, mode)}, not default")


def _recovery(nvml: Any, handle: Any) -> GpuTrouble | None:
    """What an Xid leaves behind on drivers that keep it (R570 and later); others lose the GPU, and its queries fail."""
    (value,) = nvml.nvmlDeviceGetFieldValues(handle, [nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    if value.nvmlReturn != nvml.NVML_SUCCESS or value.value.uiVal == nvml.NVML_GPU_RECOVERY_ACTION_NONE:
        return None
    action = _RECOVERY_ACTIONS.get(value.value.uiVal, f"action {value.value.uiVal}")
    return GpuTrouble(TroubleKind.RECOVERY, f"the driver asks for {action} (see the Xid in the kernel's log)")


def _row_remap(nvml: Any, handle: Any) -> GpuTrouble | None:
    _, _, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
    if failed:
        return GpuTrouble(TroubleKind.ROW_REMAP, "a bad memory row could not be remapped")
    return GpuTrouble(TroubleKind.ROW_REMAP, "a row remap is pending until a reset") if pending else None


def _retired_pages(nvml: Any, handle: Any) -> GpuTrouble | None:
    """The older GPUs' form of a row remap."""
    pending = nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle) == nvml.NVML_FEATURE_ENABLED
    return GpuTrouble(TroubleKind.ROW_REMAP, "a page retirement is pending until a reset") if pending else None


def _ecc(nvml: Any, handle: Any) -> GpuTrouble | None:
    """Errors since the driver was loaded; those of a GPU's whole life are described, and do not refuse it."""
    errors = nvml.nvmlDeviceGetTotalEccErrors(handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
    if not errors:
        return None
    return GpuTrouble(TroubleKind.ECC, f"{errors} uncorrectable ECC errors since the driver was loaded")
