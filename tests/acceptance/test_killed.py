"""Processes killed in the middle of an attempt: the job is run again, once, and nothing survives or is doubled."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from installation import Installation, sweep_text

from ddqueue.processes import is_alive, start_ticks

HOST = "sim-rtx6000"
LONG = sweep_text("killed", points=["{concurrency: 1, context: 4096, output: 128}"])


def server_of(installation: Installation) -> list[tuple[int, int]]:
    named = [(pid, start_ticks(pid)) for pid in installation.servers(HOST)]
    assert named, "a server runs"
    return [(pid, ticks) for pid, ticks in named if ticks is not None]


def check_run_again_once(installation: Installation, sweep: str, first_outcome: str) -> None:
    (job,) = installation.wait_final(sweep)
    assert job["state"] == "succeeded"
    shown = installation.show(job["job_id"])
    assert [attempt["outcome"] for attempt in shown["attempts"]] == [first_outcome, "succeeded"]
    lost, accepted = shown["attempts"]
    assert lost["fence"] < accepted["fence"]
    assert [row["repeat"] for row in accepted["measurements"]] == [1, 2, 3]
    (row,) = installation.json("results", sweep)["jobs"]
    assert [point["n"] for point in row["points"]] == [3], "the lost attempt's numbers are not counted"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_worker(installation: Installation, number: signal.Signals) -> None:
    sweep = installation.submit(LONG)
    _, worker = installation.start_all(HOST)
    installation.wait_measuring(HOST)
    servers = server_of(installation)
    worker.send_signal(number)
    worker.wait(60)
    installation.wait(sweep, lambda jobs: jobs[0]["state"] == "queued")
    assert not any(is_alive(pid, ticks) for pid, ticks in servers), "the server did not outlive its job"
    installation.start("worker", "--host", HOST)
    check_run_again_once(installation, sweep, "cancelled")


def test_a_killed_attempt_leaves_an_orphan_that_the_next_one_ends(installation: Installation) -> None:
    sweep = installation.submit(LONG)
    installation.start_all(HOST)
    row = installation.wait_measuring(HOST)
    servers = server_of(installation)
    (attempt,) = installation.show(row["job_id"])["attempts"]
    os.kill(attempt["runner_pid"], signal.SIGKILL)
    check_run_again_once(installation, sweep, "lost")
    assert not any(is_alive(pid, ticks) for pid, ticks in servers)


def test_worker_and_attempt_killed_together(installation: Installation) -> None:
    sweep = installation.submit(LONG)
    _, worker = installation.start_all(HOST)
    row = installation.wait_measuring(HOST)
    servers = server_of(installation)
    (attempt,) = installation.show(row["job_id"])["attempts"]
    os.kill(worker.pid, signal.SIGKILL)
    os.kill(attempt["runner_pid"], signal.SIGKILL)
    worker.wait()
    assert all(is_alive(pid, ticks) for pid, ticks in servers), "nobody is there to end it yet"
    installation.start("worker", "--host", HOST)
    check_run_again_once(installation, sweep, "lost")
    assert not any(is_alive(pid, ticks) for pid, ticks in servers)


def test_a_killed_dispatcher_is_replaced_by_the_next(installation: Installation) -> None:
    sweep = installation.submit(LONG)
    dispatcher, _ = installation.start_all(HOST)
    installation.wait_measuring(HOST)
    dispatcher.kill()
    dispatcher.wait()
    second = installation.submit(sweep_text("behind-it"))
    installation.start("dispatcher")
    for name in (sweep, second):
        (job,) = installation.wait_final(name)
        assert job["state"] == "succeeded"
        assert len(installation.show(job["job_id"])["attempts"]) == 1


def test_nothing_is_left_when_a_worker_ends(installation: Installation) -> None:
    _, worker = installation.start_all(HOST)
    sweep = installation.submit(sweep_text("one"))
    installation.wait_final(sweep)
    worker.terminate()
    assert worker.wait(60) == 0
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(installation.home) not in listed
    assert installation.servers(HOST) == []
