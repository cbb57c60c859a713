"""A whole ddqueue as a person runs it: the command line, a dispatcher, workers, simulated boxes; all real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ddqueue.domain.states import FINAL, JobState
from ddqueue.files.examples import example
from ddqueue.gpu.ownership import LOCK_VARIABLE
from ddqueue.ports import GpuReading
from ddqueue.processes import carriers
from ddqueue.sim.gpus import SimulatedGpus
from ddqueue.storage.engine import connect
from ddqueue.storage.live import HostLive, PostgresLive
from ddqueue.storage.pooled_reads import PooledReads
from ddqueue.storage.reading import PostgresReader

PATIENCE_S = 240.0
"""How long a test waits before it calls something stuck; no assertion depends on how long anything takes. Real servers
take longer: Installation.patience_s."""


class Installation:
    """One folder, one database, one broker."""

    def __init__(self, home: Path, database_url: str, redis_url: str, inventory: str | None = None) -> None:
        """`inventory` is the text of the inventory file; that of the two simulated boxes without one."""
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        (home / "inventory.yaml").write_text(inventory or example("inventory-sim.yaml"))
        self._environment = os.environ | {
            "DDQUEUE_HOME": str(home),
            "DDQUEUE_DATABASE_URL": database_url,
            "DDQUEUE_REDIS_URL": redis_url,
            "DDQUEUE_INVENTORY": str(home / "inventory.yaml"),
        }
        self.patience_s = PATIENCE_S
        self._running: list[subprocess.Popen[bytes]] = []
        # What a test polls is read in this process: a command a poll would keep both cores busy.
        self._sql_engine = connect(database_url, "tests")
        self._reader = PostgresReader(PooledReads(self._sql_engine))

    def run(self, *arguments: str, code: int | None = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        """`ddqueue ARGUMENTS...`; fails unless it ends with `code`."""
        done = subprocess.run(
            [sys.executable, "-m", "ddqueue", *arguments],
            env=self._environment | environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert code is None or done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").stdout)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """`ddqueue ARGUMENTS...` in the background, its output in a log of its own."""
        name = "-".join(word.lstrip("-") for word in arguments)
        with (self.home / f"{name}-{len(self._running)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "ddqueue", *arguments],
                env=self._environment,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._running.append(process)
        return process

    def start_all(self, *hosts: str) -> list[subprocess.Popen[bytes]]:
        """A dispatcher and a worker for each host."""
        return [self.start("dispatcher"), *(self.start("worker", "--host", host) for host in hosts)]

    def stop(self) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        # What a test killed may have left servers behind; a following test must not meet them.
        for host in ("sim-rtx6000", "sim-b300"):
            for pid in self.servers(host):
                os.kill(pid, signal.SIGKILL)
        self._sql_engine.dispose()

    def submit(self, text: str, *options: str) -> str:
        """Write a sweep file and submit it; returns `name@revision`."""
        path = self.home / "sweep.yaml"
        path.write_text(text)
        stored = json.loads(self.run("submit", str(path), "--json", *options).stdout)
        return f"{stored['sweep']}@{stored['revision']}"

    def jobs(self, sweep: str) -> list[dict[str, Any]]:
        return self._reader.jobs(self._reader.sweep(sweep).sweep_id)

    def show(self, job_id: int) -> dict[str, Any]:
        return self._reader.job(job_id)

    def live(self) -> dict[str, HostLive]:
        """What a live view shows of every host that has work."""
        return PostgresLive(self._sql_engine).hosts()

    def wait_final(self, sweep: str) -> list[dict[str, Any]]:
        """The sweep's jobs, once each is in a final state."""
        return self.wait(sweep, lambda jobs: all(JobState(job["state"]) in FINAL for job in jobs))

    def wait(self, sweep: str, condition: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        deadline = time.monotonic() + self.patience_s
        while not condition(jobs := self.jobs(sweep)):
            assert time.monotonic() < deadline, f"{sweep} is stuck: {jobs}\n{self.logs()}"
            time.sleep(0.3)
        return jobs

    def wait_measuring(self, host: str) -> dict[str, Any]:
        """The host's row of `status`, once its attempt is in the middle of a measurement."""
        deadline = time.monotonic() + self.patience_s
        while True:
            row = next((row for row in self._reader.hosts() if row["name"] == host), None)
            if row is not None and (row["activity"] or "").startswith("measure"):
                return dict(row)
            assert time.monotonic() < deadline, f"{host} never measured: {row}\n{self.logs()}"
            time.sleep(0.1)

    def servers(self, host: str) -> list[int]:
        """Processes of the host's simulated server."""
        return carriers(LOCK_VARIABLE, str(self.home / "locks" / f"{host}.lock"))

    @property
    def environment(self) -> dict[str, str]:
        """What every command gets, for a test that starts another program."""
        return dict(self._environment)

    def set(self, variable: str, value: str) -> None:
        """An environment variable for everything that is started from now on."""
        self._environment[variable] = value

    def host(self, name: str) -> dict[str, Any]:
        """The host's row of `status`; empty fields until a sweep has named it."""
        rows = [row for row in self._reader.hosts() if row["name"] == name]
        return rows[0] if rows else {"quarantined_at": None}

    def simulated_gpus(self, host: str) -> SimulatedGpus:
        return SimulatedGpus(self.home / "sim" / host)

    def gpus(self, host: str) -> list[GpuReading]:
        return self.simulated_gpus(host).read()

    def logs(self) -> str:
        """The ends of every process's log, for a failed assertion."""
        return "\n".join(f"--- {path.name}\n{path.read_text()[-2000:]}" for path in sorted(self.home.glob("*.log")))


def sweep_text(
    name: str,
    hosts: Sequence[str] = ("sim-rtx6000",),
    cells: Sequence[str] = ("{block_size: 8, budget: 8, topk: 4, window: 2048}",),
    points: Sequence[str] = ("{concurrency: 1, context: 60, output: 32}",),
    more: Mapping[str, str] | None = None,
) -> str:
    """A small sweep file on simulated boxes."""
    lines = [
        f"name: {name}",
        "model: kimi-k2.6",
        "engine: sim",
        f"hosts: [{', '.join(hosts)}]",
        "parallel: [TP8]",
        *(f"{key}: {value}" for key, value in (more or {}).items()),
        "cells:",
        *(f"  - {cell}" for cell in cells),
        "measure:",
        "  points:",
        *(f"    - {point}" for point in points),
        "  repeats: {min: 3, max: 3}",
    ]
    return "\n".join(lines) + "\n"
