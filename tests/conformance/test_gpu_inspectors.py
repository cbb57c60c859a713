"""One suite for every inspector: the simulated one, and NVML's over a driver that answers from a list.

The real driver answers the same questions in tests/gpu/test_inspector.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml
import pytest
from fake_nvml import FakeNvml, eight_gpus

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.gpu.cleanroom import GpuCleanRoom
from ddqueue.gpu.nvml import NvmlInspector
from ddqueue.gpu.shared_memory import SharedMemory
from ddqueue.gpu.visible import VisibleGpus, cuda_environment
from ddqueue.ports import GpuInspector, GpuReading, TroubleKind
from ddqueue.sim.gpu_faults import GpuFault
from ddqueue.sim.gpus import SimulatedGpus

KIND = "H200"


@dataclass(frozen=True)
class Box:
    """Eight GPUs behind one inspector. `fail` makes one of them ill; `use` lets a process hold MiB of one of them."""

    inspector: GpuInspector
    fail: Callable[[GpuFault, int], None]
    use: Callable[[int, int, int], None]
    uuids: list[str]


def nvml_box(folder: Path) -> Box:
    nvml = FakeNvml(eight_gpus())

    def fail(fault: GpuFault, gpu: int) -> None:
        ill = nvml.gpus[gpu]
        match fault:
            case GpuFault.NO_DRIVER:
                nvml.init_error = pynvml.NVML_ERROR_UNKNOWN
            case GpuFault.NO_HANDLE:
                ill.raises["nvmlDeviceGetHandleByIndex"] = pynvml.NVML_ERROR_UNKNOWN
            case GpuFault.MISSING:
                nvml.gpus.remove(ill)
            case GpuFault.LOST:
                ill.raises["nvmlDeviceGetMemoryInfo"] = pynvml.NVML_ERROR_GPU_IS_LOST
            case GpuFault.XID:
                ill.recovery = pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET
            case GpuFault.ROW_REMAP:
                ill.remapped = (0, 1, 1, 0)
            case GpuFault.ECC:
                ill.uncorrected[pynvml.NVML_VOLATILE_ECC] = 1
            case GpuFault.MIG:
                ill.mig = (pynvml.NVML_DEVICE_MIG_ENABLE, pynvml.NVML_DEVICE_MIG_ENABLE)
            case GpuFault.EXCLUSIVE:
                ill.compute_mode = pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
            case GpuFault.BUSY:
                ill.utilization = 100

    def use(gpu: int, mib: int, pid: int) -> None:
        nvml.gpus[gpu].used_mib += mib
        nvml.gpus[gpu].compute_pids.append(pid)

    return Box(NvmlInspector(nvml), fail, use, [gpu.uuid for gpu in nvml.gpus])


def simulated_box(folder: Path) -> Box:
    gpus = SimulatedGpus.create(folder / "box", 8, "NVIDIA H200", 143771)
    return Box(gpus, gpus.faults.add, gpus.hold, [f"GPU-sim-box-{index}" for index in range(8)])


@pytest.fixture(params=[nvml_box, simulated_box], ids=["nvml", "simulated"])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Box:
    make: Callable[[Path], Box] = request.param
    return make(tmp_path)


def refused(action: Callable[[], Any]) -> str:
    """The evidence of the GPU_LOST that `action` raises."""
    with pytest.raises(AttemptFailure) as refusal:
        action()
    assert refusal.value.failure is Failure.GPU_LOST
    return refusal.value.evidence


def prove_clean(inspector: GpuInspector, folder: Path, gpus: int = 8, kind: str = KIND) -> list[GpuReading]:
    room = GpuCleanRoom(inspector, gpus, kind, 0.0, SharedMemory(folder), shm_free_mib=0)
    return room.prove_clean(lambda: None)


def test_a_healthy_idle_box(box: Box, tmp_path: Path) -> None:
    readings = prove_clean(box.inspector, tmp_path)
    assert [reading.index for reading in readings] == list(range(8))
    assert [reading.uuid for reading in readings] == box.uuids
    assert [reading.pci_bus_id for reading in readings] == sorted(reading.pci_bus_id for reading in readings)
    assert {(one.name, one.memory_total_mib, one.utilization_percent, one.pids, one.troubles) for one in readings} == {
        ("NVIDIA H200", 143771, 0, (), ())
    }


@pytest.mark.parametrize(
    ("fault", "evidence"),
    [
        (GpuFault.NO_DRIVER, "Failed to initialize NVML: Unknown Error"),
        (GpuFault.NO_HANDLE, "Unable to determine the device handle for GPU 5: Unknown Error"),
        (GpuFault.LOST, "GPU 5 does not answer: GPU is lost"),
    ],
)
def test_what_cannot_be_read_is_lost_and_never_idle(box: Box, tmp_path: Path, fault: GpuFault, evidence: str) -> None:
    box.fail(fault, 5)
    assert refused(box.inspector.read) == evidence
    assert refused(box.inspector.describe) == evidence
    assert refused(lambda: prove_clean(box.inspector, tmp_path)) == evidence


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (GpuFault.XID, TroubleKind.RECOVERY, "asks for a reset of the GPU"),
        (GpuFault.ROW_REMAP, TroubleKind.ROW_REMAP, "a row remap is pending until a reset"),
        (GpuFault.ECC, TroubleKind.ECC, "1 uncorrectable ECC errors since the driver was loaded"),
        (GpuFault.MIG, TroubleKind.MIG, "MIG is enabled"),
        (GpuFault.EXCLUSIVE, TroubleKind.COMPUTE_MODE, "compute mode is exclusive process, not default"),
    ],
)
def test_a_gpu_in_trouble_is_refused_with_the_reason(
    box: Box, tmp_path: Path, fault: GpuFault, kind: TroubleKind, words: str
) -> None:
    box.fail(fault, 2)
    readings = box.inspector.read()
    assert [[trouble.kind for trouble in reading.troubles] for reading in readings] == [
        [kind] if index == 2 else [] for index in range(8)
    ]
    evidence = refused(lambda: prove_clean(box.inspector, tmp_path))
    assert evidence.startswith(f"GPU 2 ({box.uuids[2]}): ")
    assert words in evidence


def test_with_mig_on_utilisation_is_unknown(box: Box) -> None:
    box.fail(GpuFault.MIG, 2)
    assert [reading.utilization_percent for reading in box.inspector.read()] == [0, 0, None, 0, 0, 0, 0, 0]


def test_seven_rows_of_eight(box: Box, tmp_path: Path) -> None:
    box.fail(GpuFault.MISSING, 3)
    assert len(box.inspector.read()) == 7
    evidence = refused(lambda: prove_clean(box.inspector, tmp_path))
    assert evidence.startswith("7 GPUs answer, the inventory says 8: ")
    assert box.uuids[3] not in evidence
    assert box.uuids[4] in evidence


def test_more_gpus_than_the_inventory_says_are_not_used_by_guess(box: Box, tmp_path: Path) -> None:
    assert refused(lambda: prove_clean(box.inspector, tmp_path, gpus=4)) == (
        "8 GPUs answer, the inventory says 4: correct `gpus:`, "
        "or name those to use in the worker's CUDA_VISIBLE_DEVICES"
    )


def test_another_kind_of_gpu(box: Box, tmp_path: Path) -> None:
    evidence = refused(lambda: prove_clean(box.inspector, tmp_path, kind="RTX PRO 6000"))
    assert evidence.split("; ")[7] == "GPU 7 is a NVIDIA H200, the inventory says RTX PRO 6000"


def test_a_process_and_its_memory_are_seen(box: Box, tmp_path: Path) -> None:
    box.use(6, 1000, os.getpid())
    reading = box.inspector.read()[6]
    assert reading.pids == (os.getpid(),)
    assert 1000 <= reading.memory_used_mib <= 1004
    with pytest.raises(AttemptFailure) as busy:
        prove_clean(box.inspector, tmp_path)
    assert busy.value.failure is Failure.GPU_BUSY
    assert f"GPU 6 ({box.uuids[6]}): {reading.memory_used_mib} MiB used" in busy.value.evidence
    assert f"by pid {os.getpid()} (" in busy.value.evidence
    assert "python" in busy.value.evidence


def test_work_without_memory_or_process_is_no_idleness(box: Box, tmp_path: Path) -> None:
    box.fail(GpuFault.BUSY, 1)
    with pytest.raises(AttemptFailure) as busy:
        prove_clean(box.inspector, tmp_path)
    assert busy.value.failure is Failure.GPU_BUSY
    assert "utilisation 100%, by no visible process" in busy.value.evidence


@pytest.mark.parametrize(
    ("spelling", "chosen"),
    [
        ("3,1,0", [0, 1, 3]),
        ("7", [7]),
        (" 0, 1 ,2,", [0, 1, 2]),
        ("7,6,5,4,3,2,1,0", list(range(8))),
        ("UUID 4,UUID 2", [2, 4]),
        ("UUID 4,0", [0, 4]),
    ],
)
def test_visible_devices_are_mapped_to_whole_gpus_in_pci_order(
    box: Box, tmp_path: Path, spelling: str, chosen: list[int]
) -> None:
    for index, uuid in enumerate(box.uuids):
        spelling = spelling.replace(f"UUID {index}", uuid)
    visible = VisibleGpus(box.inspector, spelling)
    readings = prove_clean(visible, tmp_path, gpus=len(chosen))
    assert [reading.uuid for reading in readings] == [box.uuids[index] for index in chosen]
    assert visible.describe()["used"] == [box.uuids[index] for index in chosen]
    assert cuda_environment(list(reversed(readings))) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, chosen)),
    }


@pytest.mark.parametrize(
    ("spelling", "why"),
    [
        ("", "it hides every GPU"),
        (" , ", "it hides every GPU"),
        ("MIG-GPU-1/7/0", "MIG-GPU-1/7/0 is a MIG instance; a server needs whole GPUs"),
        ("0,1,8", "8 is no GPU of this machine, which has "),
        ("0,-1,2", "-1 is no GPU of this machine"),
        ("GPU-ffffffff", "GPU-ffffffff is no GPU of this machine"),
        ("GPU-", "GPU- names several GPUs of this machine"),
        ("all", "all is no GPU of this machine"),
        ("1,2,1", "it names GPU 1 twice"),
    ],
)
def test_visible_devices_that_are_not_whole_gpus_are_refused(box: Box, tmp_path: Path, spelling: str, why: str) -> None:
    evidence = refused(lambda: prove_clean(VisibleGpus(box.inspector, spelling), tmp_path))
    assert evidence.startswith(f"the worker's CUDA_VISIBLE_DEVICES={spelling!r} cannot be used: {why}")


def test_too_few_visible_devices_are_refused(box: Box, tmp_path: Path) -> None:
    evidence = refused(lambda: prove_clean(VisibleGpus(box.inspector, "3,1,0"), tmp_path))
    assert evidence.startswith("3 GPUs answer, the inventory says 8: ")


def test_a_sick_gpu_that_is_not_used_does_not_matter(box: Box, tmp_path: Path) -> None:
    box.fail(GpuFault.ECC, 7)
    assert len(prove_clean(VisibleGpus(box.inspector, "0,1"), tmp_path, gpus=2)) == 2


def test_a_description_is_plain_json_and_names_every_gpu(box: Box) -> None:
    description = json.loads(json.dumps(box.inspector.describe()))
    assert [gpu["uuid"] for gpu in description["gpus"]] == box.uuids
    assert {"driver", "cuda_driver", "gpus", "topology"} <= set(description)
    for gpu in description["gpus"]:
        assert {"index", "uuid", "name", "pci_bus_id", "memory_total_mib", "memory_used_mib"} <= set(gpu)
