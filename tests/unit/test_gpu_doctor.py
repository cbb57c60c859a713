"""What the doctor says of GPUs in each kind of trouble, of the box around them, and of a clock that is off."""

from __future__ import annotations

import resource
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fake_nvml import FakeNvml, eight_gpus

from ddqueue.domain.compatibility import SchemaState
from ddqueue.domain.failures import POLICIES, AttemptFailure, Failure
from ddqueue.domain.health import Check, Verdict, passed
from ddqueue.errors import NotReachable
from ddqueue.gpu import box
from ddqueue.gpu.doctor import check_gpus
from ddqueue.gpu.nvml import NvmlInspector
from ddqueue.ports import TroubleKind
from ddqueue.services.doctor import Look, check_database, check_version, examine
from ddqueue.sim.gpus import SimulatedGpus


def examined(nvml: FakeNvml, at_work: bool = False) -> dict[str, Check]:
    return {check.name: check for check in check_gpus(NvmlInspector(nvml), 8, "H200", at_work)}


def test_a_healthy_box_passes_every_check() -> None:
    checks = examined(FakeNvml(eight_gpus()))
    assert {check.verdict for check in checks.values()} == {Verdict.OK}
    assert {kind.value for kind in TroubleKind} <= set(checks)
    assert checks["driver"].finding == "580.95.05, CUDA up to 13.0"
    assert checks["PCIe links"].finding == "full width"


def test_all_troubles_are_told_at_once_each_with_a_remedy() -> None:
    nvml = FakeNvml(eight_gpus())
    nvml.gpus[0].mig = (1, 1)
    nvml.gpus[1].compute_mode = 3
    nvml.gpus[2].uncorrected = {0: 7}
    nvml.gpus[3].remapped = (0, 0, 1, 0)
    nvml.gpus[4].recovery = 1
    nvml.gpus[5].name = "NVIDIA H100"
    nvml.gpus[6].used_mib = 900
    checks = examined(nvml)
    failed = {name for name, check in checks.items() if check.verdict is Verdict.FAIL}
    assert failed == {"MIG", "compute mode", "ECC", "row remap", "recovery", "kind of GPU", "idle"}
    assert all(checks[name].remedy for name in failed)
    assert checks["MIG"].remedy == "turn MIG off for it: nvidia-smi -i N -mig 0"
    assert "7 uncorrectable ECC errors" in checks["ECC"].finding


def test_a_missing_gpu() -> None:
    nvml = FakeNvml(eight_gpus())
    del nvml.gpus[3]
    check = examined(nvml)["number of GPUs"]
    assert check.verdict is Verdict.FAIL
    assert check.finding.startswith("7 GPUs answer, the inventory says 8")


def test_what_slows_a_gpu_down_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(eight_gpus())
    slow = nvml.gpus[2]
    for name, value in {
        "nvmlDeviceGetCurrPcieLinkWidth": 8,
        "nvmlDeviceGetCurrentClocksEventReasons": 0x40,
        "nvmlDeviceGetPersistenceMode": 0,
    }.items():
        healthy = getattr(nvml, name)
        monkeypatch.setattr(
            nvml, name, lambda gpu, value=value, healthy=healthy: value if gpu is slow else healthy(gpu), raising=False
        )
    checks = examined(nvml)
    warned = {name: check.finding for name, check in checks.items() if check.verdict is Verdict.WARN}
    assert warned == {
        "PCIe links": "GPU 2 runs 8 of 16 lanes",
        "throttling": "GPU 2: hardware thermal slowdown",
        "persistence": "off for GPU 2",
    }
    assert passed(checks.values())


def test_gpus_at_work_are_not_called_busy() -> None:
    nvml = FakeNvml(eight_gpus())
    nvml.gpus[0].used_mib = 90_000
    check = examined(nvml, at_work=True)["idle"]
    assert (check.verdict, check.finding) == (Verdict.OK, "an attempt owns the GPUs just now")


def test_simulated_gpus_have_no_driver_to_check(tmp_path: Path) -> None:
    gpus = SimulatedGpus.create(tmp_path / "box", 8, "simulated H200", 1000)
    checks = {check.name: check for check in check_gpus(gpus, 8, "H200", False)}
    assert checks["driver"].finding == "simulated GPUs: there is no driver"
    assert passed(checks.values())
    assert "PCIe links" not in checks


def fall(error: Exception) -> list[Check]:
    raise error


@pytest.mark.parametrize(
    ("error", "finding", "remedy"),
    [
        (AttemptFailure(Failure.GPU_LOST, "Xid 79"), "Xid 79", POLICIES[Failure.GPU_LOST].remedy),
        (NotReachable("no database"), "no database", "start the server, or correct its URL in the environment"),
        (PermissionError(13, "Permission denied"), "[Errno 13] Permission denied", "see the message"),
    ],
)
def test_a_look_that_cannot_be_made_is_a_failed_check_and_the_rest_goes_on(
    error: Exception, finding: str, remedy: str
) -> None:
    fine = Check("fine", Verdict.OK, "all is well")
    told: list[Check] = []
    checks = examine([Look("GPUs", lambda: fall(error)), Look("fine", lambda: [fine])], told.append)
    assert checks == told == [Check("GPUs", Verdict.FAIL, finding, remedy), fine]
    assert not passed(checks)


def database(found: str | None, off: timedelta) -> list[Check]:
    state = SchemaState(found, None if found is None else "0001")
    return check_database(lambda: state, "0001", lambda: datetime.now(UTC) + off)


def test_a_database_of_this_version() -> None:
    assert database("0001", timedelta())[0] == Check("database", Verdict.OK, "reachable, tables at 0001")


@pytest.mark.parametrize(("found", "said"), [("0000", "0000"), (None, "nothing")])
def test_a_database_of_another_version(found: str | None, said: str) -> None:
    check = database(found, timedelta())[0]
    assert check.verdict is Verdict.FAIL
    assert check.finding == f"the database's tables are at {said}, this version needs 0001"
    assert check.remedy == "run: ddqueue db upgrade"


def test_a_database_that_is_only_expanded_is_fit() -> None:
    check = database("0007", timedelta())[0]
    assert check == Check(
        "database", Verdict.OK, "reachable, tables at 0007, newer than this version's 0001 and still fit for it"
    )


def test_the_dispatchers_version_is_compared() -> None:
    seen = [{"name": "control", "version": "0.2.0"}, {"name": "old", "version": "0.1.0"}]
    (other,) = check_version("0.1.0", lambda: seen)
    assert (other.verdict, other.finding) == (Verdict.WARN, "ddqueue 0.1.0, and the dispatcher on control is 0.2.0")
    assert check_version("0.2.0", lambda: seen)[0].verdict is Verdict.OK
    assert check_version("0.2.0", list)[0].finding == "ddqueue 0.2.0; no dispatcher was seen yet"


@pytest.mark.parametrize(
    ("off", "verdict", "said"),
    [
        (timedelta(seconds=600), Verdict.WARN, "600.0 s behind the database's"),
        (timedelta(seconds=-600), Verdict.WARN, "600.0 s ahead of the database's"),
        (timedelta(seconds=0.5), Verdict.OK, "0.5 s behind the database's"),
    ],
)
def test_a_clock_that_is_off(off: timedelta, verdict: Verdict, said: str) -> None:
    check = database("0001", off)[1]
    assert (check.name, check.verdict, check.finding) == ("clock", verdict, said)


def test_room(tmp_path: Path) -> None:
    there = tmp_path / "not" / "yet"
    enough = box.check_room("room for logs", there, 0)
    assert enough.verdict is Verdict.OK
    assert enough.finding.endswith(f"MiB free for {there}")
    little = box.check_room("room for logs", there, 2**50)
    assert (little.verdict, little.remedy) == (Verdict.WARN, "remove old logs or caches there")
    assert not there.exists()
    (tmp_path / "file").write_text("")
    refused = box.check_room("room for logs", tmp_path / "file" / "logs", 0)
    assert refused.verdict is Verdict.FAIL
    assert "Not a directory" in refused.finding


def test_locks(tmp_path: Path) -> None:
    fine = box.check_locks(tmp_path / "locks")
    assert fine.verdict is Verdict.OK
    (tmp_path / "file").write_text("")
    refused = box.check_locks(tmp_path / "file")
    assert refused.verdict is Verdict.FAIL
    assert refused.finding == f"{tmp_path / 'file'}: File exists"


def test_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        check = box.check_open_files()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert check.verdict is Verdict.WARN
    assert check.finding.startswith("limit 256 (hard ")


def test_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = []
    for free in (10, 100, 5000):
        monkeypatch.setattr(box, "free_mib", lambda folder, free=free: free)
        verdicts.append(box.check_shared_memory(str(tmp_path)).verdict)
    assert verdicts == [Verdict.FAIL, Verdict.WARN, Verdict.OK]
