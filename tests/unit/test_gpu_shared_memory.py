"""Segments of dead servers are removed, and only those; in a folder of the test's own, with real processes."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.gpu.cleanroom import GpuCleanRoom
from ddqueue.gpu.shared_memory import SharedMemory
from ddqueue.sim.gpus import SimulatedGpus

OURS = ["nccl-Ab12Cd", "psm_0a1b2c3d", "sglang_loads_30000.shm", "torch_4242_17_0"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shm").mkdir()
    return tmp_path / "shm"


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_bytes(b"x" * 4096)
        (folder / name).chmod(0o600)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_a_dead_server_left_is_removed_and_what_lay_there_before_stays(folder: Path) -> None:
    write(folder, "sglang_loads_20000.shm", "PostgreSQL.123")
    shared = SharedMemory(folder)
    shared.snapshot()
    write(folder, *OURS)
    assert sorted(shared.remove_left()) == OURS
    assert names(folder) == ["PostgreSQL.123", "sglang_loads_20000.shm"]


def test_other_programs_segments_stay(folder: Path) -> None:
    shared = SharedMemory(folder)
    shared.snapshot()
    others = ["PostgreSQL.456", "notes.txt", "psm_short", "pulse-shm-1", "sem.lock", "torch_model.pt"]
    write(folder, *others)
    (folder / "sglang_folder").mkdir()
    (folder / "sglang_link").symlink_to(folder / "notes.txt")
    assert shared.remove_left() == []
    assert names(folder) == sorted([*others, "sglang_folder", "sglang_link"])


def test_a_segment_made_anew_under_an_old_name_is_new(folder: Path) -> None:
    write(folder, "sglang_a", "sglang_b")
    shared = SharedMemory(folder)
    shared.snapshot()
    write(folder, "sglang_c")
    os.replace(folder / "sglang_c", folder / "sglang_a")
    assert shared.remove_left() == ["sglang_a"]
    assert names(folder) == ["sglang_b"]


def test_a_segment_in_use_stays_until_its_user_has_ended(folder: Path) -> None:
    shared = SharedMemory(folder)
    shared.snapshot()
    write(folder, "psm_00000001", "psm_00000002", "psm_00000003")
    # One is open, one is only mapped: Python's own shared memory closes nothing, SGLang's C++ parts close the file.
    user = subprocess.Popen(
        [sys.executable, "-S", "-c", USER, str(folder / "psm_00000001"), str(folder / "psm_00000002")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert user.stdout is not None
    assert user.stdout.readline() == b"holding\n"
    assert shared.remove_left() == ["psm_00000003"]
    user.communicate()
    assert names(folder) == ["psm_00000001", "psm_00000002"]


USER = """
import mmap, os, sys
opened = open(sys.argv[1], "rb")
fd = os.open(sys.argv[2], os.O_RDWR)
mapped = mmap.mmap(fd, mmap.PAGESIZE)
os.close(fd)
print("holding", flush=True)
input()
"""


def test_the_callers_own_segments_stay(folder: Path) -> None:
    shared = SharedMemory(folder)
    shared.snapshot()
    write(folder, "psm_00000001")
    with (folder / "psm_00000001").open("r+b") as file, mmap.mmap(file.fileno(), 0):
        assert shared.remove_left() == []


def test_a_segment_of_another_user_stays(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of another user")
    shared = SharedMemory(folder)
    shared.snapshot()
    write(folder, "psm_00000001", "psm_00000002")
    os.chown(folder / "psm_00000001", 65534, 65534)
    assert shared.remove_left() == ["psm_00000002"]


def test_without_a_snapshot_nothing_is_removed(folder: Path, tmp_path: Path) -> None:
    write(folder, *OURS)
    assert SharedMemory(folder).remove_left() == []
    broken = tmp_path / "record.json"
    broken.write_text("{")
    assert SharedMemory(folder, broken).remove_left() == []
    assert names(folder) == OURS


def test_a_successor_cleans_up_for_an_attempt_that_died(folder: Path, tmp_path: Path) -> None:
    record = tmp_path / "locks" / "box.shm.json"
    write(folder, "sglang_before")
    SharedMemory(folder, record).snapshot()
    write(folder, *OURS)
    successor = SharedMemory(folder, record)
    assert sorted(successor.remove_left()) == OURS
    write(folder, *OURS)
    assert successor.remove_left() == []
    assert SharedMemory(folder, record).remove_left() == []
    assert names(folder) == sorted([*OURS, "sglang_before"])


def test_the_clean_room_looks_before_and_cleans_after(folder: Path, tmp_path: Path) -> None:
    write(folder, "sglang_before")
    gpus = SimulatedGpus.create(tmp_path / "box", 2, "B300", 1000)
    record = tmp_path / "box.shm.json"
    room = GpuCleanRoom(gpus, 2, "B300", 0.0, SharedMemory(folder, record), shm_free_mib=0)
    room.prove_clean(lambda: None)
    write(folder, *OURS)
    room.prove_released()
    assert names(folder) == ["sglang_before"]
    room.prove_clean(lambda: None)
    write(folder, *OURS)
    GpuCleanRoom(gpus, 2, "B300", 0.0, SharedMemory(folder, record), shm_free_mib=0).prove_clean(lambda: None)
    assert names(folder) == ["sglang_before"]


def test_too_little_room_is_the_hosts_fault(folder: Path, tmp_path: Path) -> None:
    gpus = SimulatedGpus.create(tmp_path / "box", 2, "B300", 1000)
    room = GpuCleanRoom(gpus, 2, "B300", 0.0, SharedMemory(folder), shm_free_mib=2**40)
    with pytest.raises(AttemptFailure) as full:
        room.prove_clean(lambda: None)
    assert full.value.failure is Failure.SHM_FULL
    assert full.value.evidence.startswith(f"{folder} has ")
