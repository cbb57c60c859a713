"""Faults of a server through the whole pipeline: each has its class, and the next job on the box runs."""

from __future__ import annotations

import time

from installation import Installation, sweep_text

HOST = "sim-rtx6000"
GOOD = "{block_size: 8, budget: 8, args.watchdog-timeout: %d}"
"""A healthy cell; the number makes it another one each time."""

FINAL_FAULTS = {
    "oom@load": "OOM_LOAD",
    "oom@kv": "KV_TOO_SMALL",
    "oom@capture": "OOM_CAPTURE",
    "not-found@model": "MODEL_NOT_FOUND",
    "wrong-setting@speculative_num_draft_tokens=4": "CONFIG_OVERRIDDEN",
    "short": "SHORT_OUTPUT",
}
"""The configuration's own faults: not tried again."""


def test_a_fault_of_the_configuration_fails_its_job_alone(installation: Installation) -> None:
    cells = []
    for number, fault in enumerate(FINAL_FAULTS):
        cells += [f"{{block_size: 8, budget: 8, args.sim-fault: {fault!r}}}", GOOD % (300 + number)]
    installation.start_all(HOST)
    jobs = installation.wait_final(installation.submit(sweep_text("faults", cells=cells)))
    assert [job["failure"] for job in jobs[::2]] == list(FINAL_FAULTS.values()), [job["evidence"] for job in jobs]
    assert {job["tries"] for job in jobs[::2]} == {1}
    assert {job["state"] for job in jobs[1::2]} == {"succeeded"}, "after each, the next job ran"
    assert installation.servers(HOST) == []
    shown = installation.run("show", str(jobs[0]["job_id"])).stdout
    assert "OOM_LOAD" in shown
    assert "remedy" in shown


def test_a_fault_that_may_pass_is_tried_again_and_another_job_goes_first(installation: Installation) -> None:
    cells = ["{block_size: 8, budget: 8, args.sim-fault: crash@load}", GOOD % 300]
    installation.start_all(HOST)
    crashed, good = installation.wait_final(installation.submit(sweep_text("crash", cells=cells)))
    assert (crashed["state"], crashed["failure"], crashed["tries"]) == ("failed", "SERVER_CRASHED", 2)
    attempts = installation.show(crashed["job_id"])["attempts"]
    assert [attempt["outcome"] for attempt in attempts] == ["failed", "failed"]
    assert good["state"] == "succeeded"
    assert attempts[0]["ended_at"] <= good["started_at"] <= attempts[1]["started_at"]


def test_a_server_that_lost_a_rank_is_not_waited_for(installation: Installation) -> None:
    cells = ["{block_size: 8, budget: 8, args.sim-fault: rank-lost}", GOOD % 300]
    installation.start_all(HOST)
    sweep = sweep_text("rank-lost", cells=cells, points=("{concurrency: 2, context: 60, output: 32}",))
    lost, good = installation.wait_final(installation.submit(sweep))
    assert (lost["state"], lost["failure"], lost["tries"]) == ("failed", "SERVER_CRASHED", 2)
    for attempt in installation.show(lost["job_id"])["attempts"]:
        assert "it said that it would end, and 10 s later its other processes still ran" in attempt["evidence"]
        (stop,) = [phase for phase in attempt["phases"] if phase["name"] == "stop"]
        assert "killed pid" in stop["detail"]
    assert good["state"] == "succeeded"


def test_memory_that_does_not_come_back_is_the_hosts_fault(installation: Installation) -> None:
    installation.set("DDQUEUE_GPU_IDLE_WAIT_S", "3")
    cells = ["{block_size: 8, budget: 8, args.sim-fault: memory-kept=20}", GOOD % 300]
    installation.start_all(HOST)
    sweep = installation.submit(sweep_text("kept", cells=cells))
    host = _wait_quarantined(installation)
    assert host["quarantine_class"] == "GPU_NOT_RELEASED"
    assert "MiB used" in host["quarantine_reason"]
    first, second = installation.jobs(sweep)
    assert first["state"] == "succeeded", "what was measured before counts"
    assert (second["state"], second["tries"]) == ("queued", 0)
    assert "quarantined" in installation.run("status").stdout
    deadline = time.monotonic() + installation.patience_s
    while any(gpu.memory_used_mib for gpu in installation.gpus(HOST)):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    installation.run("release", HOST)
    assert [job["state"] for job in installation.wait_final(sweep)] == ["succeeded", "succeeded"]


def test_a_foreign_process_on_the_gpus_costs_no_try_and_is_left_alone(installation: Installation) -> None:
    installation.set("DDQUEUE_GPU_IDLE_WAIT_S", "2")
    installation.start_all(HOST)
    first = installation.wait_final(installation.submit(sweep_text("before")))
    assert first[0]["state"] == "succeeded"
    with installation.simulated_gpus(HOST).foreign(3, 4096) as pid:
        sweep = installation.submit(sweep_text("busy"))
        host = _wait_quarantined(installation)
        assert host["quarantine_class"] == "GPU_BUSY"
        assert f"pid {pid}" in host["quarantine_reason"]
        (job,) = installation.jobs(sweep)
        assert (job["state"], job["tries"]) == ("queued", 0)
    installation.run("release", HOST)
    assert [job["state"] for job in installation.wait_final(sweep)] == ["succeeded"]


def _wait_quarantined(installation: Installation) -> dict[str, object]:
    deadline = time.monotonic() + installation.patience_s
    while (host := installation.host(HOST))["quarantined_at"] is None:
        assert time.monotonic() < deadline, f"{host}\n{installation.logs()}"
        time.sleep(0.2)
    return host
