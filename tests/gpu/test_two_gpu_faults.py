"""Faults of a server over two GPUs, each with its class; after each, both GPUs are free and the next job runs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from installation import Installation
from real import HOST, Machine, foreign_process, server_process, sweep_text, wait_quarantined

from ddqueue import bootstrap
from ddqueue.domain.configuration import Cell, Parallelism, Speculation
from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.sweep import Point
from ddqueue.files.inventory_file import inventory_from_text
from ddqueue.gpu.fitness import is_idle
from ddqueue.gpu.nvml import NvmlInspector
from ddqueue.ports import LaunchRequest

pytestmark = pytest.mark.gpu

SHORT = "{concurrency: 1, context: 64, output: 64}"
TWO = "disable-custom-all-reduce: true"


@pytest.fixture(scope="module", autouse=True)
def two_gpus(machine: Machine) -> None:
    if len(machine.gpus) < 2:
        pytest.skip("needs two GPUs")


def test_tp_3_is_refused_when_it_is_submitted(box: Installation, prompts: str) -> None:
    path = box.home / "three.yaml"
    path.write_text(sweep_text("three", ["{block_size: 8}"], parallel="[{tp: 3}]", prompts=prompts, points=SHORT))
    refused = box.run("submit", str(path), code=2)
    assert f"TP3 needs 3 GPUs and {HOST} has 2" in refused.stderr
    assert "three.yaml:5" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_tp_3_is_refused_before_a_launch_with_the_sizes_that_would_do(
    box: Installation, machine: Machine, mixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDQUEUE_HOME", str(box.home))
    monkeypatch.setenv("DDQUEUE_INVENTORY", str(box.home / "inventory.yaml"))
    known = inventory_from_text(machine.inventory(mixtures), "inventory.yaml")
    request = LaunchRequest(
        host=known.host(HOST),
        model=known.model("moe-upcycled"),
        profile=known.engine("sglang-dflash"),
        cell=Cell("moe-upcycled", "sglang-dflash", Speculation(8), {"mem-fraction-static": 0.2}),
        parallelism=Parallelism(tp=3),
        tag="ddqueue-test-tp3",
        log_path=str(box.home / "tp3.log"),
        lock_fd=-1,
        lock_path=str(box.home / "tp3.lock"),
        random_seed=1,
    )
    checks = bootstrap.preflight(HOST, lambda: None, lambda _: None, on_host=True)
    with pytest.raises(AttemptFailure, match="tp 3 does not divide 4 attention heads; 1, 2 would") as refused:
        checks.check(request, (Point(1, 64, 64),))
    assert refused.value.failure is Failure.UNSUPPORTED
    assert not Path(request.log_path).exists(), "nothing was started"


@pytest.mark.parametrize("rank", [1])
def test_a_rank_killed_while_serving(box: Installation, prompts: str, rank: int) -> None:
    text = sweep_text(
        "two-crash",
        ["{block_size: 8}"],
        parallel="[TP2]",
        args=TWO,
        prompts=prompts,
        points=SHORT,
        repeats="{min: 40, max: 40}",
    )
    sweep = box.submit(text)
    row = box.wait_measuring(HOST)
    os.kill(server_process(box, f"sglang::scheduler_TP{rank}"), signal.SIGKILL)
    jobs = box.wait_final(sweep)
    crashed, again = box.show(row["job_id"])["attempts"]
    assert (crashed["outcome"], crashed["failure"]) == ("failed", "SERVER_CRASHED")
    assert f"sglang::scheduler_TP{rank} (pid " in crashed["evidence"], "which of the two it was"
    assert "release" in {phase["name"] for phase in crashed["phases"]}, "both GPUs were proven released"
    assert again["outcome"] == "succeeded", (again["failure"], again["evidence"])
    assert (jobs[0]["state"], jobs[0]["tries"]) == ("succeeded", 2)


def test_a_foreign_process_on_the_second_gpu_is_not_touched(box: Installation, machine: Machine, prompts: str) -> None:
    with foreign_process(machine.python, gpu=1) as foreign:
        text = sweep_text("two-busy", ["{block_size: 8}"], parallel="[TP2]", args=TWO, prompts=prompts, points=SHORT)
        sweep = box.submit(text)
        host = wait_quarantined(box)
        assert host["quarantine_class"] == "GPU_BUSY"
        assert "GPU 1 " in host["quarantine_reason"]
        assert "GPU 0 " not in host["quarantine_reason"]
        assert foreign.poll() is None, "it is not ours to end"
        (job,) = box.jobs(sweep)
        assert (job["state"], job["tries"]) == ("queued", 0)
    box.run("release", HOST)
    (job,) = box.wait_final(sweep)
    assert job["state"] == "succeeded", (job["failure"], job["evidence"])


def test_both_gpus_are_free_afterwards(box: Installation) -> None:
    assert box.servers(HOST) == []
    readings = NvmlInspector().read()
    assert len(readings) >= 2
    assert all(is_idle(reading) for reading in readings), readings
