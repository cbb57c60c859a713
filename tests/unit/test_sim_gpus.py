"""Simulated GPU memory: it counts while its holder lives, and for a while after."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sim_server import wait_until

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.sim.gpus import NEVER_S, SimulatedGpus


def make(folder: Path, lag_s: float | None = None) -> SimulatedGpus:
    return SimulatedGpus.create(folder / "box", 2, "Simulated GPU", 1000, lag_s)


def used_mib(gpus: SimulatedGpus) -> list[int]:
    return [reading.memory_used_mib for reading in gpus.read()]


def test_fresh_gpus_are_empty_and_have_names_for_good(tmp_path: Path) -> None:
    readings = make(tmp_path).read()
    assert [(one.index, one.uuid, one.name, one.memory_total_mib) for one in readings] == [
        (0, "GPU-sim-box-0", "Simulated GPU", 1000),
        (1, "GPU-sim-box-1", "Simulated GPU", 1000),
    ]
    assert [(one.memory_used_mib, one.pids) for one in readings] == [(0, ()), (0, ())]
    assert make(tmp_path).count == 2


def test_holders_add_up_and_a_holder_replaces_its_own(tmp_path: Path) -> None:
    gpus = make(tmp_path)
    with gpus.foreign(1, 300) as first, gpus.foreign(1, 200) as second:
        assert used_mib(gpus) == [0, 500]
        assert set(gpus.read()[1].pids) == {first, second}
        gpus.hold(1, 50, first)
        assert used_mib(gpus) == [0, 250]


def test_memory_outlives_its_holder_until_the_lag_is_over(tmp_path: Path) -> None:
    gpus = make(tmp_path, lag_s=NEVER_S)
    with gpus.foreign(0, 400):
        assert used_mib(gpus) == [400, 0]
    assert used_mib(gpus) == [400, 0]
    assert gpus.read()[0].pids == ()
    SimulatedGpus.create(tmp_path / "box", 2, "Simulated GPU", 1000, 0.0)
    assert used_mib(gpus) == [0, 0]
    assert list((tmp_path / "box").glob("holder-*")) == []


def test_the_first_look_at_a_dead_holder_starts_the_lag(tmp_path: Path) -> None:
    gpus = make(tmp_path, lag_s=0.0)
    with gpus.foreign(0, 400):
        pass
    assert used_mib(gpus) == [400, 0]
    assert used_mib(gpus) == [0, 0]


def test_kept_memory_stays_until_a_person_clears_it(tmp_path: Path) -> None:
    gpus = make(tmp_path, lag_s=0.0)
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    gpus.hold(0, 700, process.pid, release_after_s=NEVER_S)
    process.communicate()
    assert [used_mib(gpus) for _ in range(3)] == [[700, 0]] * 3
    gpus.forget_dead()
    assert used_mib(gpus) == [0, 0]


def test_a_pid_used_again_is_not_the_holder(tmp_path: Path) -> None:
    gpus = make(tmp_path, lag_s=0.0)
    with gpus.foreign(0, 400) as pid:
        (record,) = (tmp_path / "box").glob("holder-*")
        text = record.read_text()
        ticks = record.name.removesuffix(".json").rsplit("-", 1)[1]
        record.write_text(text.replace(ticks, str(int(ticks) - 1)))
        assert gpus.read()[0].pids == ()
        assert pid > 0
        assert used_mib(gpus) == [0, 0]


def test_describing_the_gpus_again_keeps_holders_and_lag(tmp_path: Path) -> None:
    with make(tmp_path, lag_s=NEVER_S).foreign(0, 100):
        assert used_mib(make(tmp_path)) == [100, 0]
    assert [used_mib(make(tmp_path)) for _ in range(2)] == [[100, 0]] * 2


@pytest.mark.parametrize("text", [None, "{", "[]", "{}"])
def test_gpus_that_cannot_be_read_are_lost_not_idle(tmp_path: Path, text: str | None) -> None:
    gpus = make(tmp_path)
    description = tmp_path / "box" / "gpus.json"
    if text is None:
        description.unlink()
    else:
        description.write_text(text)
    with pytest.raises(AttemptFailure) as failure:
        gpus.read()
    assert failure.value.failure is Failure.GPU_LOST


def test_many_processes_hold_and_read_at_once(tmp_path: Path) -> None:
    """Writers replace their files while readers read; nobody ever sees half of one."""
    gpus = make(tmp_path)
    code = (
        "import os, sys; from pathlib import Path; from ddqueue.sim.gpus import SimulatedGpus\n"
        "gpus = SimulatedGpus(Path(sys.argv[1]))\n"
        "for mib in range(1, 201): gpus.hold(0, mib, os.getpid()); gpus.read()\n"
        "print('held', flush=True); input()"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "box")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(3)
    ]
    try:
        assert [writer.stdout.readline() for writer in writers if writer.stdout] == [b"held\n"] * 3
        assert used_mib(gpus) == [600, 0]
        assert set(gpus.read()[0].pids) == {writer.pid for writer in writers}
    finally:
        for writer in writers:
            writer.communicate()
    wait_until(lambda: used_mib(gpus) == [0, 0], "the memory of ended processes did not come back")
