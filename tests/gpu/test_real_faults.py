"""Faults of a real SGLang, each with its class; and after each, the next job on the box runs."""

from __future__ import annotations

import os
import signal

import pytest
from installation import Installation
from real import HOST, Machine, foreign_process, server_process, sweep_text, wait_quarantined

pytestmark = pytest.mark.gpu

SHORT = "{concurrency: 1, context: 64, output: 64}"

CONFIGURATION_FAULTS = {
    "{block_size: 8, args.speculative-eagle-topk: 4, args.speculative-num-steps: 7}": (
        "CONFIG_OVERRIDDEN",
        "speculative_eagle_topk",
    ),
    "{args.mem-fraction-static: 0.0005}": ("KV_TOO_SMALL", "KV cache"),
    "{args.no-such-flag: 1}": ("BAD_ARGS", "no-such-flag"),
}


def test_faults_of_a_configuration_and_the_job_after_them(box: Installation, prompts: str) -> None:
    cells = [*CONFIGURATION_FAULTS, "{args.watchdog-timeout: 299}"]
    sweep = box.submit(sweep_text("real-faults", cells, prompts=prompts, points=SHORT))
    *failed, last = box.wait_final(sweep)
    assert [(job["state"], job["failure"]) for job in failed] == [
        ("failed", failure) for failure, _ in CONFIGURATION_FAULTS.values()
    ]
    for job, (_, words) in zip(failed, CONFIGURATION_FAULTS.values(), strict=True):
        assert words in job["evidence"]
    assert last["state"] == "succeeded", (last["failure"], last["evidence"])


def test_a_flag_the_build_lacks_is_also_found_in_the_log(box: Installation, prompts: str) -> None:
    text = sweep_text("real-bad-flag", ["{args.no-such-flag: 1}"], "sglang-unchecked", prompts=prompts, points=SHORT)
    (job,) = box.wait_final(box.submit(text))
    assert (job["state"], job["failure"]) == ("failed", "BAD_ARGS")
    assert "unrecognized arguments" in job["evidence"]


def test_a_scheduler_killed_while_serving(box: Installation, prompts: str) -> None:
    repeats = "{min: 40, max: 40}"
    sweep = box.submit(sweep_text("real-crash", ["{block_size: 8}"], prompts=prompts, points=SHORT, repeats=repeats))
    row = box.wait_measuring(HOST)
    os.kill(server_process(box, "sglang::scheduler"), signal.SIGKILL)
    jobs = box.wait(sweep, lambda jobs: jobs[0]["state"] != "running")
    (attempt,) = box.show(row["job_id"])["attempts"]
    assert (attempt["outcome"], attempt["failure"]) == ("failed", "SERVER_CRASHED")
    assert "crashed with exit code -9" in attempt["evidence"]
    assert (jobs[0]["state"], jobs[0]["tries"]) == ("queued", 1), "what may pass is tried again"
    box.run("cancel", sweep)


def test_a_foreign_process_on_the_gpu_is_not_touched(box: Installation, machine: Machine, prompts: str) -> None:
    with foreign_process(machine.python, gpu=0) as foreign:
        sweep = box.submit(sweep_text("real-busy", ["{block_size: 8}"], prompts=prompts, points=SHORT))
        host = wait_quarantined(box)
        assert host["quarantine_class"] == "GPU_BUSY"
        assert f"pid {foreign.pid}" in host["quarantine_reason"] or "MiB used" in host["quarantine_reason"]
        assert foreign.poll() is None, "it is not ours to end"
        (job,) = box.jobs(sweep)
        assert (job["state"], job["tries"]) == ("queued", 0)
    box.run("release", HOST)
    (job,) = box.wait_final(sweep)
    assert job["state"] == "succeeded", (job["failure"], job["evidence"])
