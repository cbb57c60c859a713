"""What lies between the GPUs of a box, in the words of `nvidia-smi topo -m`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SELF = "X"

_LEVELS = {
    0: "PIX",  # two GPUs on one board
    10: "PIX",
    20: "PXB",
    30: "PHB",
    40: "NODE",
    50: "SYS",
}
"""NVML's nearest common ancestors: one PCIe switch, several, the host bridge, the NUMA node, the system."""

_NVLINK_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
"""NVML counts them (nvmlNvlinkVersion_t in nvml.h); an H200 says 6 and has 4.0."""


def describe_topology(nvml: Any, handles: Sequence[Any]) -> dict[str, Any]:
    """`matrix[i][j]` is the PCIe path between GPU i and j (X, PIX, PXB, PHB, NODE, SYS; null where the driver cannot
    say); `nvlinks[i]` counts the active and the inactive NVLinks of GPU i, with their version."""
    return {
        "matrix": [[_path(nvml, one, other, row == column) for column, other in enumerate(handles)]
                   for row, one in enumerate(handles)],
        "nvlinks": [_nvlinks(nvml, handle) for handle in handles],
    }  # fmt: skip


def link_kind(topology: Any, one: int, other: int) -> str:
    """How two GPUs are joined: `NVLink` where both have an active link, else the PCIe path.

    `topology` is what `describe_topology` gave; what it does not tell is `unknown`.
    """
    try:
        if all(topology["nvlinks"][gpu]["active"] for gpu in (one, other)):
            return "NVLink"
        return str(topology["matrix"][one][other] or "unknown")
    except (KeyError, IndexError, TypeError):
        return "unknown"


def _path(nvml: Any, one: Any, other: Any, same: bool) -> str | None:
    if same:
        return SELF
    try:
        level = nvml.nvmlDeviceGetTopologyCommonAncestor(one, other)
    except nvml.NVMLError:
        return None
    return _LEVELS.get(level)


def _nvlinks(nvml: Any, handle: Any) -> dict[str, Any]:
    active, inactive, version = 0, 0, None
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            if nvml.nvmlDeviceGetNvLinkState(handle, link) == nvml.NVML_FEATURE_ENABLED:
                active += 1
                number = nvml.nvmlDeviceGetNvLinkVersion(handle, link)
                version = _NVLINK_VERSIONS.get(number, f"unknown ({number})")
            else:
                inactive += 1
        except nvml.NVMLError:
            continue  # This GPU has no link of that number.
    return {"active": active, "inactive": inactive, "version": version}
