"""What an attempt ran on: the GPUs, the machine and the variables that change how a server behaves."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ddqueue.gpu.bandwidth import bandwidth_of
from ddqueue.ports import GpuInspector

_PREFIXES = (
    *("NCCL_", "NVSHMEM_", "SGLANG_", "SGL_", "FLASHINFER_", "CUDA_", "TORCH_", "TORCHINDUCTOR_", "TRITON_"),
    "PYTORCH_",
)
_SECRET = re.compile(r"TOKEN|KEY|PASSW|SECRET|CREDENTIAL|AUTH", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"://[^/\s]*@|\b(hf|sk|ghp|gho|glpat)[_-][A-Za-z0-9]")
HIDDEN = "(hidden)"
MAX_VARIABLES = 200
MAX_VALUE_CHARACTERS = 500
"""So much of the environment is kept: enough for every switch there is, and no more than 100 kB."""


def describe_host(
    inspector: GpuInspector,
    simulated: bool,
    interconnect: str | None,
    environment: Mapping[str, str],
    examination: Path,
) -> dict[str, Any]:
    """Plain JSON values: `simulated`, `machine`, `interconnect` (as the inventory says), `worker_environment`,
    `bandwidth` (see `bandwidth_of`), and what the inspector says of its GPUs.

    `examination` is where the doctor keeps its findings on this host.

    Raises:
        AttemptFailure: GPU_LOST, when the GPUs do not answer.
    """
    described = inspector.describe()
    return {
        **described,
        "bandwidth": bandwidth_of(examination, [gpu["uuid"] for gpu in described["gpus"]]),
        "simulated": simulated,
        "interconnect": interconnect,
        "machine": describe_machine(),
        "worker_environment": telling_variables(environment),
    }


def describe_machine(dev_shm: str = "/dev/shm") -> dict[str, Any]:
    """The box without its GPUs. What cannot be read is null."""
    return {
        "name": platform.node(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cpu": _first(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        "cores": os.cpu_count(),
        "cores_allowed": len(os.sched_getaffinity(0)),
        "memory_total_mib": _memory_total_mib(),
        "dev_shm_mib": _size_mib(dev_shm),
    }


def telling_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that engines and their libraries read, by name; what looks like a secret keeps its name only."""
    names = sorted(name for name in environment if name.startswith(_PREFIXES))
    return {name: _shown(name, environment[name]) for name in names[:MAX_VARIABLES]}


def _shown(name: str, value: str) -> str:
    if _SECRET.search(name) or _SECRET_VALUE.search(value):
        return HIDDEN
    return value if len(value) <= MAX_VALUE_CHARACTERS else f"{value[:MAX_VALUE_CHARACTERS]}..."


def _memory_total_mib() -> int | None:
    line = _first(Path("/proc/meminfo"), "MemTotal")
    return None if line is None else int(line.split()[0]) // 1024


def _first(path: Path, key: str) -> str | None:
    """The value of the first line `key : value`."""
    try:
        with path.open() as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == key:
                    return value.strip()
    except OSError:
        return None
    return None


def _size_mib(folder: str) -> int | None:
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return status.f_blocks * status.f_frsize // 2**20
