"""The work inside an attempt: one server from launch to stop, and every point measured on it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.inventory import Inventory
from ddqueue.domain.measurement import Invalid, Measurement
from ddqueue.domain.metrics.summary import measure
from ddqueue.domain.queueing import Claim, PhaseRecord
from ddqueue.domain.statistics import enough
from ddqueue.domain.sweep import Point
from ddqueue.ports import (
    AttemptStore,
    ConfigurationCheck,
    Engine,
    HostLock,
    LaunchRequest,
    LoadClient,
    Progress,
    RunningServer,
    SameServer,
)
from ddqueue.services.preflight import Examined
from ddqueue.services.stopping import StopSignal

log = logging.getLogger(__name__)

Value = TypeVar("Value")

RANDOM_SEED = 20_240_601
"""Pinned, so that a difference between two runs is never a difference of seeds."""


@dataclass
class ServeAndMeasure:
    """`preflight` refuses what cannot run, `provenance` reads what the host is, `log_path` says where an attempt's
    server log goes."""

    store: AttemptStore
    engine: Engine
    load: LoadClient
    inventory: Inventory
    progress: Progress
    stop: StopSignal
    preflight: Callable[[LaunchRequest, tuple[Point, ...]], Examined]
    provenance: Callable[[Claim], Mapping[str, Any]]
    log_path: Callable[[Claim], str]
    _told: str = field(default="", init=False)

    def run(self, claim: Claim, lock: HostLock) -> None:
        """Returns when every point is measured; raises AttemptFailure, AttemptStopped or StaleFence."""
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
        provenance = {**self.timed(claim, "provenance", lambda: self.provenance(claim)), "log": request.log_path}
        self.store.record_provenance(claim, provenance)
        examined = self.timed(claim, "preflight", lambda: self.preflight(request, claim.measure.points))
        provenance |= examined.provenance
        server = self.timed(claim, "launch", lambda: self.engine.launch(examined.request))
        try:
            lock.note_server(server.pid)
            launched = {"argv": list(server.argv), "environment": dict(server.environment), "url": server.url}
            self.store.record_provenance(claim, provenance | launched)
            try:
                self._make_ready(claim, server)
            finally:
                warnings = {"engine_warnings": list(server.warnings)}
                self.store.record_provenance(claim, provenance | launched | warnings)
            self._measure_all(claim, server)
        finally:
            self._stop(claim, server)

    def timed(self, claim: Claim, name: str, step: Callable[[], Value], detail: str = "") -> Value:
        """Run a step and store its time, also when it fails; the step's own error is never hidden by a store's."""
        self.tell(name, detail)
        started_at, started_s = datetime.now(UTC), time.monotonic()
        try:
            value = step()
        except BaseException:
            try:
                self.store.record_phase(claim, PhaseRecord(name, started_at, time.monotonic() - started_s, "failed"))
            except Exception:
                log.exception("the time of %s could not be stored", name)
            raise
        self.store.record_phase(claim, PhaseRecord(name, started_at, time.monotonic() - started_s, detail))
        return value

    def doing(self) -> str:
        """What the attempt does now, in words."""
        return self._told

    def tell(self, phase: str, text: str) -> None:
        """Tell whoever watches, once a change."""
        told = f"{phase}: {text}" if text else phase
        if told != self._told:
            self._told = told
            self.progress.tell(phase, text)

    def _make_ready(self, claim: Claim, server: RunningServer) -> None:
        for phase in self.timed(claim, "ready", lambda: server.wait_ready(self.tell, self.stop.check)):
            self.store.record_phase(claim, phase)
        check = self.timed(claim, "confirm", server.confirm)
        self.store.record_configuration(claim, check.requested, check.effective, check.difference, check.effective_hash)
        if check.difference:
            changed = ", ".join(
                f"{name}: asked {asked}, runs {effective}" for name, (asked, effective) in check.difference.items()
            )
            raise AttemptFailure(Failure.CONFIG_OVERRIDDEN, changed)
        same = self.store.same_server(claim, check.effective_hash)
        if same is not None:
            raise AttemptFailure(Failure.CONFIG_OVERRIDDEN, _measured_already(same, check))

    def _stop(self, claim: Claim, server: RunningServer) -> None:
        self.tell("stop", "")
        started_at, started_s = datetime.now(UTC), time.monotonic()
        how = server.stop()
        self.store.record_phase(claim, PhaseRecord("stop", started_at, time.monotonic() - started_s, how))

    def _measure_all(self, claim: Claim, server: RunningServer) -> None:
        """Repeats are interleaved over the points, so that drift of the box does not favour a point."""
        points, repeats = claim.measure.points, claim.measure.repeats
        throughputs: dict[Point, list[float]] = {point: [] for point in points}
        last: dict[Point, Measurement] = {}
        for point in points:
            self.timed(claim, "warm up", partial(self._warm_up, claim, server, point), point.label)
        for repeat in range(1, repeats.maximum + 1):
            for point in points:
                if repeat > 1 and enough(throughputs[point], repeats):
                    continue
                step = partial(self._measure, claim, server, point, repeat)
                last[point] = self.timed(claim, "measure", step, f"{point.label} repeat {repeat}")
                throughput = last[point].output_throughput_tok_s
                if throughput is not None and last[point].valid:
                    throughputs[point].append(throughput)
            if all(enough(values, repeats) for values in throughputs.values()):
                break
        for point in points:
            if not throughputs[point]:
                raise _without_numbers(last[point])

    def _warm_up(self, claim: Claim, server: RunningServer, point: Point) -> None:
        salt = f"{claim.tag}-{point.label}-warm-up"
        self.load.run(server.url, point, 0, salt, self.stop.check, True, claim.measure.prompts)
        server.check_alive()

    def _measure(self, claim: Claim, server: RunningServer, point: Point, repeat: int) -> Measurement:
        self.stop.check()
        server.flush_cache()
        salt = f"{claim.tag}-{point.label}-{repeat}"
        run = self.load.run(server.url, point, repeat, salt, self.stop.check, False, claim.measure.prompts)
        measurement = measure(run, claim.tag, baseline=claim.cell.is_baseline)
        self.store.record_measurement(claim, measurement)
        server.check_alive()
        if measurement.requests_completed == 0:
            errors = [request.error for request in run.requests if request.error] or ["no answer"]
            stalled = AttemptFailure(Failure.SERVER_STALLED, f"{point.label}: every request failed: {errors[0]}")
            raise server.explain(errors[0]) or stalled
        if Invalid.WRONG_SERVER in measurement.reasons:
            raise AttemptFailure(Failure.PORT_BUSY, f"{point.label}: an answer came from another server")
        return measurement


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


def _without_numbers(measurement: Measurement) -> AttemptFailure:
    """A point none of whose repeats may be ranked: the cell failed there, it is not missing."""
    failure = Failure.SHORT_OUTPUT if Invalid.SHORT_OUTPUT in measurement.reasons else Failure.SERVER_STALLED
    error = next((request.error for request in measurement.requests if request.error), None)
    reasons = ", ".join(measurement.reasons)
    return AttemptFailure(
        failure, f"{measurement.point.label}: no valid repeat ({reasons}){f': {error}' if error else ''}"
    )
