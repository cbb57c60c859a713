"""The spare attempt process: it takes the next order, is replaced when it dies, and ends with its worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from installation import Installation, sweep_text

from ddqueue.files.examples import example
from ddqueue.processes import is_alive, start_ticks
from workers.attempts import AttemptProcesses, Report

HOST = "sim-rtx6000"
PATIENCE_S = 120.0

LOADED_LATE = """
import sys
from ddqueue import bootstrap
from ddqueue.domain.queueing import Runner
from ddqueue.services.stopping import StopSignal
from workers.attempt import PipeProgress, load

load()
before = set(sys.modules)
with bootstrap.attempt("sim-rtx6000", PipeProgress(), StopSignal(60.0)) as execute:
    report = execute.run("sim-rtx6000", 999, Runner(1, 1, "test"))
print(report.text)
print(sorted(name for name in set(sys.modules) - before if name.split(".")[0] in ("ddqueue", "sqlalchemy", "psycopg")))
"""


@pytest.fixture
def inventory(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The inventory's file in a home of its own, where no job is queued; attempts started meanwhile find both."""
    path = tmp_path / "inventory.yaml"
    path.write_text(example("inventory-sim.yaml"))
    monkeypatch.setenv("DDQUEUE_HOME", str(tmp_path))
    monkeypatch.setenv("DDQUEUE_INVENTORY", str(path))
    monkeypatch.setenv("DDQUEUE_DATABASE_URL", database_url)
    return path


@pytest.fixture
def attempts(inventory: Path) -> Iterator[AttemptProcesses]:
    made = AttemptProcesses("gpu@test", 60.0)
    yield made
    made.stop_all()


def run(attempts: AttemptProcesses, job_id: int, host: str = HOST) -> Report:
    return attempts.run(host, job_id, lambda phase, text: None)


def spare_of(attempts: AttemptProcesses) -> tuple[int, int]:
    """The pid and start of the spare, which must be there and alive."""
    pid = attempts.spare_pid
    assert pid is not None
    return named(pid)


def named(pid: int) -> tuple[int, int]:
    ticks = start_ticks(pid)
    assert ticks is not None
    assert is_alive(pid, ticks)
    return pid, ticks


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_loaded(pid: int) -> None:
    """Until the process has loaded the last that it loads, the driver of the database."""
    wait_until(lambda: "psycopg" in Path(f"/proc/{pid}/maps").read_text())


def test_the_spare_takes_the_next_order(attempts: AttemptProcesses) -> None:
    assert attempts.spare_pid is None
    assert run(attempts, 998) == Report(False, "job 998 cannot be claimed now")
    spare = spare_of(attempts)
    assert run(attempts, 999) == Report(False, "job 999 cannot be claimed now")
    assert not is_alive(*spare), "it ends with its one attempt"
    assert spare_of(attempts) != spare
    assert not attempts.busy, "a spare does not hold up the worker's exit"


def test_a_killed_spare_is_replaced_and_no_order_is_lost(attempts: AttemptProcesses) -> None:
    run(attempts, 998)
    spare = spare_of(attempts)
    os.kill(spare[0], signal.SIGKILL)
    wait_until(lambda: not is_alive(*spare))
    assert run(attempts, 999) == Report(False, "job 999 cannot be claimed now")
    assert spare_of(attempts) != spare


def test_inventory_is_read_when_the_order_comes(attempts: AttemptProcesses, inventory: Path) -> None:
    written = inventory.read_text()
    refused = run(attempts, 998, "sim-late")
    assert not refused.worked
    assert "sim-late" in refused.text
    wait_loaded(spare_of(attempts)[0])
    inventory.write_text(written.replace(HOST, "sim-late"))
    assert run(attempts, 999, "sim-late") == Report(False, "job 999 cannot be claimed now")


def test_a_waiting_spare_holds_neither_lock_nor_connection(attempts: AttemptProcesses) -> None:
    run(attempts, 998)
    pid, _ = spare_of(attempts)
    wait_loaded(pid)
    opened = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    assert not [name for name in opened if name.startswith("socket:") or name.endswith(".lock") or "nvidia" in name]


def test_stopping_ends_the_spare_and_makes_no_other(attempts: AttemptProcesses) -> None:
    run(attempts, 998)
    spare = spare_of(attempts)
    wait_loaded(spare[0])
    attempts.stop_all()
    wait_until(lambda: not is_alive(*spare))
    assert attempts.spare_pid in (None, spare[0])


def test_all_that_an_attempt_needs_is_loaded_before_its_order(inventory: Path) -> None:
    said = subprocess.run([sys.executable, "-c", LOADED_LATE], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["job 999 cannot be claimed now", "[]"]


def test_jobs_go_on_without_a_spare_and_the_last_one_ends_with_a_killed_worker(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    installation = Installation(tmp_path / "home", database_url, redis_url)
    try:
        _, worker = installation.start_all(HOST)
        first = installation.submit(sweep_text("first", points=["{concurrency: 1, context: 4096, output: 128}"]))
        installation.wait_measuring(HOST)
        assert len(children(worker.pid)) == 2, "the next spare came with the server's start, before any measurement"
        installation.wait_final(first)
        wait_until(lambda: len(children(worker.pid)) == 1)
        (spare,) = children(worker.pid)
        os.kill(spare[0], signal.SIGKILL)
        second = installation.submit(sweep_text("second", points=["{concurrency: 1, context: 60, output: 8}"]))
        (job,) = installation.wait_final(second)
        assert job["state"] == "succeeded"
        assert len(installation.show(job["job_id"])["attempts"]) == 1
        wait_until(lambda: len(children(worker.pid)) == 1)
        (last,) = children(worker.pid)
        assert last != spare
        worker.kill()
        wait_until(lambda: not is_alive(*last))
    finally:
        installation.stop()


def children(pid: int) -> list[tuple[int, int]]:
    """The living children of a process."""
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    found = [(int(word), start_ticks(int(word))) for path in listed for word in path.read_text().split()]
    return [(child, ticks) for child, ticks in found if ticks is not None and is_alive(child, ticks)]
