"""`ddqueue doctor` and `ddqueue hosts` as a person runs them, with real servers and an engine that really answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from storage_world import RTX, World, a_sweep

from ddqueue.domain.failures import Failure
from ddqueue.domain.retry import after_failure
from ddqueue.domain.states import AttemptOutcome
from ddqueue.files.examples import example
from ddqueue.gpu.ownership import KernelOwnership
from ddqueue.sim.gpu_faults import GpuFault
from ddqueue.sim.gpus import SimulatedGpus

HOST = "sim-rtx6000"
REAL = """
hosts:
  box: {gpus: 2, gpu: H200}
models:
  here: {path: %(model)s}
  away: {path: {box: /nowhere/model}}
engines:
  missing:
    command: [/nowhere/python, -m, sglang.launch_server]
"""


class Machine:
    """One folder of ddqueue's on this machine, with an inventory of simulated boxes."""

    def __init__(self, home: Path, database_url: str, redis_url: str) -> None:
        self.home = home
        home.mkdir()
        self.inventory = home / "inventory.yaml"
        self.inventory.write_text(example("inventory-sim.yaml"))
        self.environment = {
            **os.environ,
            "DDQUEUE_HOME": str(home),
            "DDQUEUE_INVENTORY": str(self.inventory),
            "DDQUEUE_DATABASE_URL": database_url,
            "DDQUEUE_REDIS_URL": redis_url,
        }

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ddqueue", *arguments],
            env=self.environment | environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def doctor(self, code: int, *arguments: str, **environment: str) -> dict[str, dict[str, Any]]:
        """The checks by name."""
        done = self.run("doctor", "--json", *arguments, **environment)
        assert done.returncode == code, done.stdout + done.stderr
        found = json.loads(done.stdout)
        assert found["passed"] is (code == 0)
        return {check["name"]: check for check in found["checks"]}

    @property
    def gpus(self) -> SimulatedGpus:
        return SimulatedGpus(self.home / "sim" / HOST)


@pytest.fixture
def machine(tmp_path: Path, database_url: str, redis_url: str) -> Machine:
    return Machine(tmp_path / "home", database_url, redis_url)


def test_a_fit_host(machine: Machine) -> None:
    checks = machine.doctor(0, "--host", HOST)
    assert {check["verdict"] for check in checks.values()} <= {"ok", "warn"}
    assert checks["number of GPUs"]["finding"] == "8"
    assert checks["engine sim"]["verdict"] == "ok"
    assert checks["database"]["finding"].startswith("reachable, tables at ")
    assert checks["clock"]["verdict"] == "ok"
    assert checks["broker"]["finding"] == "reachable"
    assert checks["bandwidth"]["finding"] == "simulated GPUs: not measured"
    kept = json.loads((machine.home / "doctor" / f"{HOST}.json").read_text())
    assert (kept["host"], kept["passed"], kept["bandwidth"]) == (HOST, True, None)
    assert [check["name"] for check in kept["checks"]] == list(checks)


def test_a_sick_host_and_its_remedies_in_words(machine: Machine) -> None:
    machine.doctor(0, "--host", HOST, "--no-measure")
    machine.gpus.faults.add(GpuFault.ROW_REMAP, 5)
    machine.gpus.faults.add(GpuFault.MISSING, 2)
    done = machine.run("doctor", "--host", HOST, "--no-measure")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    remap = next(index for index, line in enumerate(lines) if line.startswith("fail  row remap: "))
    assert lines[remap].endswith("GPU 5 (GPU-sim-sim-rtx6000-5): a row remap is pending until a reset")
    assert lines[remap + 1].strip().startswith("take the host out of work and reset the GPU")
    assert lines[-1].startswith(f"{HOST} is not fit for work: 2 of ")
    assert "Traceback" not in done.stderr
    machine.gpus.faults.add(GpuFault.NO_DRIVER)
    checks = machine.doctor(1, "--host", HOST, "--no-measure")
    assert checks["GPUs"]["finding"] == "Failed to initialize NVML: Unknown Error"
    machine.gpus.faults.mend()
    machine.doctor(0, "--host", HOST, "--no-measure")


def test_servers_that_are_away_or_of_another_version(machine: Machine, empty_database_url: str) -> None:
    checks = machine.doctor(1, "--host", HOST, DDQUEUE_REDIS_URL="redis://127.0.0.1:1/0")
    assert (checks["broker"]["verdict"], checks["database"]["verdict"]) == ("fail", "ok")
    checks = machine.doctor(1, "--host", HOST, DDQUEUE_DATABASE_URL=empty_database_url)
    assert checks["database"]["finding"].startswith("the database's tables are at nothing, this version needs ")
    checks = machine.doctor(1, "--host", HOST, DDQUEUE_DATABASE_URL="postgresql://u:hidden-word@127.0.0.1:1/x")
    assert checks["database"]["verdict"] == "fail"
    assert "hidden-word" not in json.dumps(checks)


def test_a_foreign_process_is_named(machine: Machine) -> None:
    machine.doctor(0, "--host", HOST)
    with machine.gpus.foreign(3, 500) as pid:
        idle = machine.doctor(1, "--host", HOST)["idle"]
    assert idle["verdict"] == "fail"
    assert f"500 MiB used, utilisation 0%, by pid {pid} (" in idle["finding"]


def test_a_host_at_work_is_not_disturbed(machine: Machine) -> None:
    machine.doctor(0, "--host", HOST)
    with KernelOwnership(machine.home / "locks").own(HOST) as lock, machine.gpus.foreign(0, 500):
        assert lock is not None
        idle = machine.doctor(0, "--host", HOST)["idle"]
    assert idle["finding"] == "an attempt owns the GPUs just now"


def test_which_host_this_is(machine: Machine) -> None:
    done = machine.run("doctor")
    assert done.returncode == 2
    assert "say which host this machine is, with --host: " in done.stderr
    assert done.stderr.rstrip().endswith("has sim-b300, sim-rtx6000")
    done = machine.run("doctor", "--host", "a100")
    assert (done.returncode, "has no host 'a100'" in done.stderr) == (2, True)


def test_a_real_host_whose_parts_are_missing(machine: Machine, tmp_path: Path) -> None:
    """Without GPUs here, the real path is examined to its end, and each missing part is a check of its own."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"")
    (model / "tokenizer.json").write_text("{}")
    machine.inventory.write_text(REAL % {"model": model})
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has an NVIDIA driver")
    checks = machine.doctor(1)
    assert checks["GPUs"]["finding"].startswith("Failed to initialize NVML: ")
    assert checks["model away"]["verdict"] == "fail"
    assert "/nowhere/model" in checks["model away"]["finding"]
    assert checks["engine missing"]["finding"].startswith("cannot start /nowhere/python: ")
    assert checks["bandwidth"]["verdict"] in ("warn", "fail")


def test_hosts_say_why_they_are_shut_and_what_failed(machine: Machine, database_url: str) -> None:
    done = machine.run("hosts")
    assert done.stdout.startswith("no host is known yet")
    world = World(database_url)
    world.submit(a_sweep(budgets=range(1, 4), hosts=[RTX]), hosts=[RTX])
    for job_id in world.jobs()[:3]:
        claim = world.claim(job_id)
        decision = after_failure(Failure.SERVER_CRASHED, 1)
        world.attempts.finish(claim, AttemptOutcome.FAILED, decision, Failure.SERVER_CRASHED, f"evidence {job_id}")
    (host,) = json.loads(machine.run("hosts", "--json").stdout)["hosts"]
    assert host["quarantine_reason"].startswith("circuit breaker: 3 suspicious failures in a row")
    assert [failure["evidence"] for failure in host["last_failures"]] == ["evidence 3", "evidence 2", "evidence 1"]
    text = machine.run("hosts").stdout
    assert "8 x RTX PRO 6000, pcie, simulated" in text
    assert "rtx6000 is quarantined since " in text
    assert "then: ddqueue release rtx6000" in text
    assert "evidence 2" in text
    assert machine.run("release", "rtx6000").stdout == "rtx6000 takes work again\n"
    world.claim(world.jobs()[3])
    (host,) = json.loads(machine.run("hosts", "--json").stdout)["hosts"]
    assert (host["quarantined_at"], host["worker"], host["runner_pid"]) == (None, "gpu@rtx6000", 4242)
    assert "gpu@rtx6000, pid 4242" in machine.run("hosts").stdout
    world.sql_engine.dispose()
