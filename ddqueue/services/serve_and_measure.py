"""The work inside an attempt: one server from launch to stop, every point measured on it, and its coding checks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.inventory import Inventory
from ddqueue.domain.queueing import CarriedRepeat, Claim, PhaseRecord
from ddqueue.domain.sweep import Point
from ddqueue.ports import (
    AttemptStore,
    ConfigurationCheck,
    Engine,
    HostLock,
    LaunchRequest,
    RunningServer,
    SameServer,
)
from ddqueue.services.check_coding import CheckCoding
from ddqueue.services.measure_points import MeasurePoints
from ddqueue.services.preflight import Examined
from ddqueue.services.steps import Steps
from ddqueue.services.stopping import StopSignal

RANDOM_SEED = 20_240_601
"""Pinned, so that a difference between two runs is never a difference of seeds."""


@dataclass(frozen=True)
class ServeAndMeasure:
    """`preflight` refuses what cannot run, `provenance` reads what the host is, `log_path` says where an attempt's
    server log goes."""

    store: AttemptStore
    engine: Engine
    inventory: Inventory
    steps: Steps
    stop: StopSignal
    points: MeasurePoints
    coding: CheckCoding
    preflight: Callable[[LaunchRequest, tuple[Point, ...]], Examined]
    provenance: Callable[[Claim], Mapping[str, Any]]
    log_path: Callable[[Claim], str]

    def run(self, claim: Claim, lock: HostLock) -> None:
        """Returns when every point is measured and every answer scored.

        Raises AttemptFailure, AttemptStopped or StaleFence.
        """
        profile = self.inventory.engine(claim.cell.engine)
        request = LaunchRequest(
            host=self.inventory.host(claim.host),
            model=self.inventory.model(claim.cell.model),
            profile=profile,
            cell=claim.cell,
            parallelism=claim.parallelism,
            tag=claim.tag,
            log_path=self.log_path(claim),
            lock_fd=lock.fd,
            lock_path=lock.path,
            random_seed=RANDOM_SEED,
        )
        provenance = {**self.steps.timed(claim, "provenance", lambda: self.provenance(claim)), "log": request.log_path}
        self.store.record_provenance(claim, provenance)
        examined = self.steps.timed(claim, "preflight", lambda: self.preflight(request, claim.measure.points))
        provenance |= examined.provenance
        suite = self.coding.suite(claim)
        server = self.steps.timed(claim, "launch", lambda: self.engine.launch(examined.request))
        try:
            lock.note_server(server.pid)
            launched = {"argv": list(server.argv), "environment": dict(server.environment), "url": server.url}
            self.store.record_provenance(claim, provenance | launched)
            try:
                carried = self._make_ready(claim, server)
            finally:
                warnings = {"engine_warnings": list(server.warnings)}
                self.store.record_provenance(claim, provenance | launched | warnings)
            self.points.run(claim, server, carried)
            if suite is not None:
                self.coding.run(claim, server, suite)
        finally:
            self._stop(claim, server)

    def _make_ready(self, claim: Claim, server: RunningServer) -> list[CarriedRepeat]:
        """Returns what earlier attempts have measured on an equal server."""
        for phase in self.steps.timed(claim, "ready", lambda: server.wait_ready(self.steps.tell, self.stop.check)):
            self.store.record_phase(claim, phase)
        check = self.steps.timed(claim, "confirm", server.confirm)
        self.store.record_configuration(claim, check.requested, check.effective, check.difference, check.effective_hash)
        if check.difference:
            changed = ", ".join(
                f"{name}: asked {asked}, runs {effective}" for name, (asked, effective) in check.difference.items()
            )
            raise AttemptFailure(Failure.CONFIG_OVERRIDDEN, changed)
        same = self.store.same_server(claim, check.effective_hash)
        if same is not None:
            raise AttemptFailure(Failure.CONFIG_OVERRIDDEN, _measured_already(same, check))
        return self.store.carry_over(claim, check.effective_hash)

    def _stop(self, claim: Claim, server: RunningServer) -> None:
        self.steps.tell("stop", "")
        started_at, started_s = datetime.now(UTC), time.monotonic()
        how = server.stop()
        self.store.record_phase(claim, PhaseRecord("stop", started_at, time.monotonic() - started_s, how))


def _measured_already(same: SameServer, check: ConfigurationCheck) -> str:
    """What the two cells asked differently, to no effect."""
    here, there = check.requested, same.requested
    names = sorted({*here, *there} - {"port", "weight_version"})
    ignored = [
        f"{name} is {here.get(name, 'not asked')} here and {there.get(name, 'not asked')} there"
        for name in names
        if here.get(name) != there.get(name)
    ]
    why = "; ".join(ignored) or "nothing that the server shows was asked differently"
    return f"runs exactly what job {same.job_id} ({same.cell_label}) runs, and is not measured twice: {why}"
