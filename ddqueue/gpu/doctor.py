"""What a doctor finds on a host's GPUs: each kind of trouble as a check of its own, so that all are seen at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ddqueue.domain.health import Check, Verdict
from ddqueue.gpu.fitness import count_problem, describe_use, is_idle, kind_problems
from ddqueue.ports import GpuInspector, GpuReading, TroubleKind

_RESET = "take the host out of work and reset the GPU (`nvidia-smi -r -i N`), or reboot; ddqueue never does that"

_REMEDIES = {
    TroubleKind.MIG: "turn MIG off for it: nvidia-smi -i N -mig 0",
    TroubleKind.COMPUTE_MODE: "set the default mode: nvidia-smi -i N -c DEFAULT",
    TroubleKind.ECC: _RESET,
    TroubleKind.ROW_REMAP: _RESET,
    TroubleKind.RECOVERY: _RESET,
    TroubleKind.UNREADABLE: "compare with `nvidia-smi`; reload the driver, or reboot",
}


def check_gpus(inspector: GpuInspector, gpus: int, kind: str, at_work: bool) -> list[Check]:
    """Driver, number, kind, health, settings, links and idleness; `at_work` = an attempt owns the GPUs just now.

    Raises:
        AttemptFailure: GPU_LOST, when they do not answer.
    """
    readings = inspector.read()
    description = inspector.describe()
    return [
        _driver(description),
        _count(readings, gpus),
        _kind(readings, kind),
        *(_trouble(readings, trouble) for trouble in TroubleKind),
        *_links(description),
        *_throttling(description),
        *_persistence(description),
        _idle(readings, at_work),
    ]


def _driver(description: Mapping[str, Any]) -> Check:
    if description["driver"] is None:
        return Check("driver", Verdict.OK, "simulated GPUs: there is no driver")
    return Check("driver", Verdict.OK, f"{description['driver']}, CUDA up to {description['cuda_driver']}")


def _count(readings: Sequence[GpuReading], gpus: int) -> Check:
    problem = count_problem(readings, gpus)
    if problem is None:
        return Check("number of GPUs", Verdict.OK, str(gpus))
    return Check("number of GPUs", Verdict.FAIL, problem, "compare with `nvidia-smi -L` and the kernel's log")


def _kind(readings: Sequence[GpuReading], kind: str) -> Check:
    problems = kind_problems(readings, kind)
    if not problems:
        return Check("kind of GPU", Verdict.OK, ", ".join(sorted({reading.name for reading in readings})) or "none")
    return Check("kind of GPU", Verdict.FAIL, "; ".join(problems), "correct `gpu:` of this host in the inventory")


def _trouble(readings: Sequence[GpuReading], kind: TroubleKind) -> Check:
    found = [
        f"GPU {reading.index} ({reading.uuid}): {trouble.text}"
        for reading in readings
        for trouble in reading.troubles
        if trouble.kind is kind
    ]
    if not found:
        return Check(str(kind), Verdict.OK, "no trouble")
    return Check(str(kind), Verdict.FAIL, "; ".join(found), _REMEDIES[kind])


def _links(description: Mapping[str, Any]) -> list[Check]:
    """Only the width tells of a bad slot or riser: an idle link lowers its generation to save power."""
    links = [(gpu["index"], gpu["pci_link"]) for gpu in description["gpus"] if gpu.get("pci_link")]
    narrow = [
        f"GPU {index} runs {link['width']} of {link['width_max']} lanes"
        for index, link in links
        if link["width"] and link["width_max"] and link["width"] < link["width_max"]
    ]
    if not links:
        return []
    if not narrow:
        return [Check("PCIe links", Verdict.OK, "full width")]
    return [Check("PCIe links", Verdict.WARN, "; ".join(narrow), "reseat the GPU or its riser; check the slot's setup")]


def _throttling(description: Mapping[str, Any]) -> list[Check]:
    states = [(gpu["index"], gpu["throttled_by"]) for gpu in description["gpus"] if gpu.get("throttled_by") is not None]
    throttled = [f"GPU {index}: {', '.join(reasons)}" for index, reasons in states if reasons]
    if not states:
        return []
    if not throttled:
        return [Check("throttling", Verdict.OK, "none")]
    return [Check("throttling", Verdict.WARN, "; ".join(throttled), "check cooling, power supplies and power limits")]


def _persistence(description: Mapping[str, Any]) -> list[Check]:
    states = [(gpu["index"], gpu["persistence"]) for gpu in description["gpus"] if gpu.get("persistence") is not None]
    off = ", ".join(str(index) for index, on in states if not on)
    if not states:
        return []
    if not off:
        return [Check("persistence", Verdict.OK, "on")]
    remedy = "start nvidia-persistenced: without it every server start wakes the driver up first"
    return [Check("persistence", Verdict.WARN, f"off for GPU {off}", remedy)]


def _idle(readings: Sequence[GpuReading], at_work: bool) -> Check:
    if at_work:
        return Check("idle", Verdict.OK, "an attempt owns the GPUs just now")
    busy = [describe_use(reading) for reading in readings if not is_idle(reading)]
    if not busy:
        return Check("idle", Verdict.OK, "no process, no memory in use")
    return Check("idle", Verdict.FAIL, "; ".join(busy), "end those processes yourself; ddqueue ends only its own")
