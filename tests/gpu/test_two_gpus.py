"""One server over two GPUs: the trained pair by tensor parallelism, and mixtures of experts by both kinds of split."""

from __future__ import annotations

import json
from typing import Any

import pytest
from installation import Installation
from real import HOST, KNOWN_ACCEPTANCE, Machine, acceptance_length, mean_at, sweep_text

pytestmark = pytest.mark.gpu

TOLERANCE = 0.15
TWO = "disable-custom-all-reduce: true, enforce-disable-flashinfer-allreduce-fusion: true"
"""Ranks talk through NCCL alone: SGLang's other ways may use NVLink multicast, which not every virtual machine can."""

Jobs = dict[str, dict[str, Any]]


@pytest.fixture(scope="module", autouse=True)
def two_gpus(machine: Machine) -> None:
    if len(machine.gpus) < 2:
        pytest.skip("needs two GPUs")


@pytest.fixture(scope="module")
def dense(box: Installation, prompts: str) -> Jobs:
    text = sweep_text(
        "two-dense",
        ["{block_size: 8}"],
        parallel="[TP2]",
        args=TWO,
        env="{NCCL_DEBUG: INFO}",
        prompts=prompts,
        baseline="true",
        hypothesis="acceptance does not depend on the number of GPUs",
    )
    return measured(box, text)


@pytest.fixture(scope="module")
def upcycled(box: Installation, prompts: str) -> Jobs:
    text = sweep_text(
        "two-moe",
        ["{block_size: 8}"],
        model="moe-upcycled",
        parallel="[TP2, EP2]",
        args=f"{TWO}, moe-runner-backend: triton",
        prompts=prompts,
        baseline="true",
        hypothesis="experts split by tensor or by expert parallelism accept the same; only their step time differs",
    )
    return measured(box, text)


@pytest.fixture(scope="module")
def random_weights(box: Installation, prompts: str) -> Jobs:
    text = sweep_text(
        "two-moe-random",
        ["{block_size: 8}"],
        model="moe-random",
        parallel="[TP2, EP2]",
        args=f"{TWO}, moe-runner-backend: triton, load-format: dummy, speculative-draft-load-format: dummy",
        points="{concurrency: [1, 8], context: 64, output: 64}",
        prompts=prompts,
    )
    return measured(box, text)


def measured(box: Installation, text: str) -> Jobs:
    """The sweep's jobs, all succeeded, by parallelism and label."""
    jobs = [box.show(job["job_id"]) for job in box.wait_final(box.submit(text))]
    for job in jobs:
        assert job["state"] == "succeeded", (job["label"], job["parallel"], job["failure"], job["evidence"])
        attempt = job["attempts"][-1]
        assert attempt["simulated"] is False
        assert attempt["difference"] == {}
        assert all(row["valid"] for row in attempt["measurements"]), job["label"]
    return {f"{job['parallel']} {job['label']}": job for job in jobs}


def test_the_pair_accepts_over_two_gpus_what_it_accepts_on_one(dense: Jobs) -> None:
    assert list(dense) == ["TP2 baseline", "TP2 bs8 none"]
    low, high = KNOWN_ACCEPTANCE["bs8 none"]
    assert low - TOLERANCE <= acceptance_length(dense["TP2 bs8 none"]) <= high + TOLERANCE


def test_both_splits_of_the_experts_accept_what_the_dense_model_does(upcycled: Jobs) -> None:
    assert set(upcycled) == {"TP2 baseline", "TP2 bs8 none", "EP2 baseline", "EP2 bs8 none"}
    low, high = KNOWN_ACCEPTANCE["bs8 none"]
    for parallel, sizes in (("TP2", (2, 1)), ("EP2", (2, 2))):
        job = upcycled[f"{parallel} bs8 none"]
        effective = job["attempts"][-1]["effective"]
        assert (effective["tp_size"], effective["ep_size"]) == sizes
        assert low - TOLERANCE <= acceptance_length(job) <= high + TOLERANCE


def test_the_two_splits_are_paired_and_compared(box: Installation, upcycled: Jobs) -> None:
    assert upcycled
    compared = box.json("compare", f"{HOST}/TP2", f"{HOST}/EP2", "--sweep", "two-moe")
    (box.home / "compare.txt").write_text(box.run("compare", f"{HOST}/TP2", f"{HOST}/EP2", "--sweep", "two-moe").stdout)
    pairs = {pair["a"]["label"]: pair for pair in compared["pairs"]}
    assert set(pairs) == {"baseline", "bs8 none"}
    assert pairs["bs8 none"]["acceptance_agrees"] is True
    for pair in pairs.values():
        assert [point["concurrency"] for point in pair["points"]] == [1, 8, 32]
        assert all(side["step_time_ms"] > 0 for point in pair["points"] for side in (point["a"], point["b"]))


def test_random_weights_accept_nothing_on_either_split(random_weights: Jobs) -> None:
    assert set(random_weights) == {"TP2 bs8 none", "EP2 bs8 none"}
    for job in random_weights.values():
        assert 1.0 <= acceptance_length(job) < 1.1
        assert all(mean_at(job, concurrency)["step_time_ms"] > 0 for concurrency in (1, 8))


def test_every_attempt_says_how_its_gpus_are_joined(dense: Jobs, upcycled: Jobs) -> None:
    for job in (*dense.values(), *upcycled.values()):
        found = job["attempts"][-1]["provenance"]
        assert [len(row) for row in found["topology"]["matrix"]] == [2, 2]
        assert set(found["bandwidth"]["pairs"]) == {"0>1", "1>0"}
        assert all(rate > 5 for rate in found["bandwidth"]["pairs"].values()), "GB/s; a PCIe 4 link has 25"
        assert found["bandwidth"]["gpus"] == [gpu["uuid"] for gpu in found["gpus"]]


def test_clocks_and_power_of_both_gpus_are_known_for_every_window(box: Installation, dense: Jobs) -> None:
    windows = json.loads(
        box.run(
            "sql",
            "SELECT m.id, array_agg(t.gpu_index ORDER BY t.gpu_index) AS gpus, min(t.power_mean_w) AS least_w,"
            " min(t.sm_clock_mean_mhz) AS least_mhz, min(t.readings) AS readings"
            " FROM measurements m JOIN attempts a ON a.id = m.attempt_id JOIN telemetry t ON t.measurement_id = m.id"
            " GROUP BY m.id",
            "--json",
        ).stdout
    )
    rows = sum(len(attempt["measurements"]) for job in dense.values() for attempt in job["attempts"])
    assert len(windows) >= rows > 0
    for window in windows:
        assert window["gpus"] == [0, 1]
        assert window["readings"] >= 0
        assert window["least_w"] is None or window["least_w"] > 5
    assert any(window["least_w"] and window["least_mhz"] for window in windows)


def test_the_log_of_each_rank_was_read(dense: Jobs) -> None:
    """Ranks write into one log, each line with its rank; what lasts until the last rank is there is timed."""
    for job in dense.values():
        attempt = job["attempts"][-1]
        phases = {phase["name"] for phase in attempt["phases"]}
        assert {"init distributed", "load weights", "capture graphs", "release"} <= phases
        with open(attempt["provenance"]["log"], encoding="utf-8") as log:
            text = log.read()
        assert " TP0] " in text
        assert " TP1] " in text


def test_both_gpus_are_free_afterwards(box: Installation, dense: Jobs, upcycled: Jobs, random_weights: Jobs) -> None:
    from ddqueue.gpu.fitness import is_idle
    from ddqueue.gpu.nvml import NvmlInspector

    assert dense
    assert upcycled
    assert random_weights
    assert box.servers(HOST) == []
    readings = NvmlInspector().read()
    assert len(readings) >= 2
    assert all(is_idle(reading) for reading in readings), readings
