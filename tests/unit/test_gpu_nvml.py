"""NVML's inspector beyond what every inspector does: health queries, memory, sessions with the driver, description."""

from __future__ import annotations

import json

import pynvml
import pytest
from fake_nvml import FakeGpu, FakeNvml, eight_gpus

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.gpu.fitness import is_idle
from ddqueue.gpu.nvml import NvmlInspector
from ddqueue.gpu.topology import link_kind
from ddqueue.ports import TroubleKind


def one_gpu(**answers: object) -> tuple[FakeNvml, NvmlInspector]:
    nvml = FakeNvml([FakeGpu("GPU-1", "00000000:18:00.0", **answers)])  # type: ignore[arg-type]
    return nvml, NvmlInspector(nvml)


def troubles(**answers: object) -> list[tuple[TroubleKind, str]]:
    (reading,) = one_gpu(**answers)[1].read()
    return [(trouble.kind, trouble.text) for trouble in reading.troubles]


@pytest.mark.parametrize("mode", [(1, 1), (1, 0)])
def test_mig_now(mode: tuple[int, int]) -> None:
    assert troubles(mig=mode) == [(TroubleKind.MIG, "MIG is enabled")]


def test_mig_after_the_next_reset() -> None:
    assert troubles(mig=(0, 1)) == [(TroubleKind.MIG, "MIG will be enabled by the next reset")]


def test_a_gpu_without_mig_is_a_whole_one() -> None:
    assert troubles(mig=None) == []


def test_prohibited_compute_mode() -> None:
    text = "compute mode is prohibited, not default"
    assert troubles(compute_mode=pynvml.NVML_COMPUTEMODE_PROHIBITED) == [(TroubleKind.COMPUTE_MODE, text)]


def test_a_failed_remap_is_worse_than_a_pending_one() -> None:
    assert troubles(remapped=(0, 3, 1, 1)) == [(TroubleKind.ROW_REMAP, "a bad memory row could not be remapped")]


def test_rows_remapped_for_good_are_no_trouble() -> None:
    assert troubles(remapped=(2, 1, 0, 0)) == []


def test_errors_of_former_days_are_described_and_do_not_refuse() -> None:
    _, inspector = one_gpu(uncorrected={pynvml.NVML_AGGREGATE_ECC: 4})
    assert inspector.read()[0].troubles == ()
    assert inspector.describe()["gpus"][0]["ecc_uncorrected_lifetime"] == 4


def test_every_trouble_is_told() -> None:
    found = troubles(mig=(1, 1), remapped=(0, 0, 1, 0), uncorrected={pynvml.NVML_VOLATILE_ECC: 2}, recovery=2)
    assert [kind for kind, _ in found] == [
        TroubleKind.MIG,
        TroubleKind.RECOVERY,
        TroubleKind.ROW_REMAP,
        TroubleKind.ECC,
    ]
    assert "a reboot of the machine" in found[1][1]


@pytest.mark.parametrize(
    "query",
    [
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetGraphicsRunningProcesses",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetComputeMode",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetTotalEccErrors",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetUUID",
    ],
)
@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_GPU_IS_LOST])
def test_no_query_may_fail_unseen(query: str, code: int) -> None:
    _, inspector = one_gpu(raises={query: code})
    with pytest.raises(AttemptFailure) as lost:
        inspector.read()
    assert lost.value.failure is Failure.GPU_LOST
    assert lost.value.evidence == f"GPU 0 does not answer: {pynvml.NVMLError(code)}"


@pytest.mark.parametrize(
    "query", ["nvmlDeviceGetRemappedRows", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetFieldValues"]
)
def test_a_query_that_this_kind_of_gpu_lacks_is_no_trouble(query: str) -> None:
    assert troubles(raises={query: pynvml.NVML_ERROR_NOT_SUPPORTED}) == []


def test_unknown_utilisation_without_mig_is_a_trouble_and_not_idle() -> None:
    _, inspector = one_gpu(raises={"nvmlDeviceGetUtilizationRates": pynvml.NVML_ERROR_NOT_SUPPORTED})
    (reading,) = inspector.read()
    assert [trouble.kind for trouble in reading.troubles] == [TroubleKind.UNREADABLE]
    assert not is_idle(reading)


def test_what_the_driver_reserves_is_not_use() -> None:
    (reading,) = one_gpu(reserved_mib=1200, used_mib=4)[1].read()
    assert reading.memory_used_mib == 4
    assert is_idle(reading)


@pytest.mark.parametrize(("used_mib", "idle"), [(0, True), (128, True), (129, False), (1418, False)])
def test_a_context_that_cannot_be_seen_is_use(used_mib: int, idle: bool) -> None:
    assert is_idle(one_gpu(used_mib=used_mib)[1].read()[0]) is idle


def test_a_process_that_draws_counts_once() -> None:
    (reading,) = one_gpu(compute_pids=[20, 7], graphics_pids=[7])[1].read()
    assert reading.pids == (7, 20)


def test_the_driver_stays_open_between_readings_and_is_opened_anew_after_trouble() -> None:
    nvml, inspector = one_gpu()
    assert [len(inspector.read()) for _ in range(3)] == [1, 1, 1]
    assert nvml.opened == 1
    nvml.gpus[0].raises["nvmlDeviceGetHandleByIndex"] = pynvml.NVML_ERROR_GPU_IS_LOST
    with pytest.raises(AttemptFailure, match="Unable to determine the device handle for GPU 0: GPU is lost"):
        inspector.read()
    assert nvml.opened == 0
    nvml.gpus[0].raises.clear()
    assert len(inspector.read()) == 1
    inspector.close()
    inspector.close()
    assert nvml.opened == 0


def test_a_machine_without_a_driver() -> None:
    nvml, inspector = one_gpu()
    nvml.init_error = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    with pytest.raises(AttemptFailure, match="Failed to initialize NVML: NVML Shared Library Not Found"):
        inspector.read()


def test_a_description_holds_what_explains_a_slow_night() -> None:
    nvml = FakeNvml(eight_gpus())
    nvml.gpus[3].nvlinks = nvml.gpus[4].nvlinks = 18
    nvml.gpus[5].raises = {"nvmlDeviceGetTemperature": pynvml.NVML_ERROR_NOT_SUPPORTED}
    description = json.loads(json.dumps(NvmlInspector(nvml).describe()))
    assert (description["driver"], description["cuda_driver"]) == ("580.95.05", "13.0")
    gpu = description["gpus"][3]
    assert gpu["clocks_mhz"] == {"sm": {"current": 345, "max": 1980}, "memory": {"current": 345, "max": 1980}}
    assert (gpu["power_limit_w"], gpu["persistence"], gpu["ecc"], gpu["temperature_c"]) == (700.0, True, True, 31)
    assert gpu["pci_link"] == {"generation": 5, "generation_max": 5, "width": 16, "width_max": 16}
    assert gpu["throttled_by"] == []
    assert description["gpus"][5]["temperature_c"] is None
    topology = description["topology"]
    assert topology["matrix"][0] == ["X", "NODE", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"]
    assert topology["nvlinks"][3] == {"active": 18, "inactive": 0, "version": "3.0"}
    assert [link_kind(topology, 3, other) for other in (4, 2, 5)] == ["NVLink", "NODE", "SYS"]


def test_eight_gpus_are_described_within_bounds() -> None:
    assert len(json.dumps(NvmlInspector(FakeNvml(eight_gpus())).describe())) < 20_000


def test_without_a_topology_all_pairs_are_one_kind() -> None:
    assert {link_kind(None, 0, 1), link_kind(None, 1, 2)} == {"unknown"}
