"""Starts servers through the real engine, as an attempt does: with a held lock, its mark and small limits."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ddqueue.domain.configuration import Cell, Parallelism, Speculation
from ddqueue.domain.failures import AttemptFailure
from ddqueue.domain.inventory import Drafter, EngineProfile, Host, Model, SettingTemplate
from ddqueue.engine.launcher import SglangEngine
from ddqueue.engine.limits import StartLimits
from ddqueue.engine.server import SglangServer
from ddqueue.gpu.ownership import LOCK_VARIABLE, KernelOwnership
from ddqueue.ports import LaunchRequest
from ddqueue.sim.gpus import SimulatedGpus

HOST = Host("sim-box", 2, "simulated GPU", simulated_box="nvlink")
SCRIPTED = Path(__file__).parent / "scripted_server.py"

SETTINGS = {
    "speculation": SettingTemplate(
        ("--speculative-algorithm", "DDTREE", "--speculative-draft-model-path", "{drafter}")
    ),
    "block_size": SettingTemplate(("--speculative-num-draft-tokens", "{value}")),
    "budget": SettingTemplate(("--speculative-ddtree-budget", "{value}")),
    "topk": SettingTemplate(env={"SGLANG_DDTREE_MAX_TOPK": "{value}"}),
    "window": SettingTemplate(("--speculative-draft-window-size", "{value}")),
}
TREE = Cell("m", "sim", Speculation(8, 12, 6, 2048))

LIMITS = StartLimits(
    total_s=60.0, no_progress_s=20.0, fatal_s=1.0, request_s=5.0, stop_s=10.0, children_s=5.0, flush_s=5.0
)
"""For tests in which no limit is meant to be reached, but for `fatal_s`."""


@dataclass
class EngineWorld:
    """One simulated host with two GPUs."""

    folder: Path
    limits: StartLimits = LIMITS
    told: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gpus = SimulatedGpus.create(self.folder / "gpus", HOST.gpus, HOST.gpu_kind, 96 * 1024, release_lag_s=0)
        self.ownership = KernelOwnership(self.folder / "locks")

    @contextmanager
    def simulated(self, *faults: str, cell: Cell = TREE, **changes: Any) -> Iterator[SglangServer]:
        """A simulated SGLang with these faults; ended at the end."""
        command = ("{python}", "-m", "ddqueue.sim.server", "--sim-startup-s", "0")
        for fault in faults:
            command += ("--sim-fault", fault)
        profile = EngineProfile("sim", {"*": command}, SETTINGS, simulated=True)
        with self.launched(replace(profile, **changes), cell) as server:
            yield server

    @contextmanager
    def scripted(self, script: str) -> Iterator[SglangServer]:
        """A server that follows one of the scripts of scripted_server.py; ended at the end."""
        command = (sys.executable, "-S", str(SCRIPTED), script)
        with self.launched(EngineProfile("scripted", {"*": command}), Cell("m", "scripted")) as server:
            yield server

    @contextmanager
    def launched(self, profile: EngineProfile, cell: Cell) -> Iterator[SglangServer]:
        engine = SglangEngine(
            LOCK_VARIABLE,
            self.limits,
            lambda host: {"DDQUEUE_SIM_GPUS": str(self.folder / "gpus")},
            lambda host: self.folder / "caches" / host,
        )
        with self.ownership.own(HOST.name) as lock:
            assert lock is not None
            server = engine.launch(
                LaunchRequest(
                    host=HOST,
                    model=Model("m", {"*": "/simulated/m"}, Drafter({"*": "/simulated/draft"}, 8)),
                    profile=profile,
                    cell=cell,
                    parallelism=Parallelism(tp=2),
                    tag="ddqueue-7-3",
                    log_path=str(self.folder / "server.log"),
                    lock_fd=lock.fd,
                    lock_path=lock.path,
                    random_seed=1,
                )
            )
            try:
                yield server
            finally:
                server.stop()

    def wait(self, server: SglangServer, should_stop: Callable[[], None] = lambda: None) -> list[str]:
        """Wait until the server is ready; returns the names of its phases."""
        phases = server.wait_ready(lambda phase, text: self.told.append((phase, text)), should_stop)
        return [phase.name for phase in phases]

    def failure(self, server: SglangServer) -> AttemptFailure:
        """How the start fails; fails the test when it does not."""
        try:
            phases = self.wait(server)
        except AttemptFailure as failure:
            return failure
        raise AssertionError(f"the server became ready: {phases}")

    def nothing_is_left(self) -> None:
        """No process with the host's mark, and no memory held."""
        assert self.ownership.strays(HOST.name) == []
        readings = self.gpus.read()
        assert [gpu.pids for gpu in readings] == [()] * HOST.gpus
        assert [gpu.memory_used_mib for gpu in self.gpus.read()] == [0] * HOST.gpus


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
