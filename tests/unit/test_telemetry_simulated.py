"""A simulated server's load as the telemetry of its GPUs shows it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sim_server import running, wait_until

from ddqueue.sim.gpu_faults import GpuFault
from ddqueue.sim.gpus import SimulatedGpus
from ddqueue.sim.telemetry import BUSY, IDLE, THROTTLED, SimulatedTelemetryReader

LONG = 8_000
"""Tokens of an answer that takes most of a minute: it goes on until the test ends it."""


@pytest.fixture
def gpus(tmp_path: Path) -> SimulatedGpus:
    return SimulatedGpus.create(tmp_path / "gpus", 4, "Simulated GPU", 10_000)


def powers(gpus: SimulatedGpus) -> list[float | None]:
    return [sample.power_w for sample in SimulatedTelemetryReader(gpus).read()]


def test_a_server_that_generates_is_busy_on_its_own_gpus_and_idle_afterwards(
    tmp_path: Path, gpus: SimulatedGpus
) -> None:
    environment = {"DDQUEUE_SIM_GPUS": str(tmp_path / "gpus")}
    with (
        running(tmp_path, "--tp-size", "2", "--base-gpu-id", "1", environment=environment) as server,
        ThreadPoolExecutor() as pool,
    ):
        server.wait_ready()
        wait_until(lambda: powers(gpus) == [IDLE.power_w] * 4, "a server without requests is busy")
        answer = pool.submit(server.generate, LONG)
        loaded = [IDLE.power_w, BUSY.power_w, BUSY.power_w, IDLE.power_w]
        wait_until(lambda: powers(gpus) == loaded, "its load was never seen")
        memory_mib = [sample.memory_used_mib for sample in SimulatedTelemetryReader(gpus).read()]
        assert memory_mib[0] == memory_mib[3] == 0
        assert (memory_mib[1] or 0) > 1000
        server.ask("POST", "/abort_request", {"abort_all": True})
        answer.result()
        wait_until(lambda: powers(gpus) == [IDLE.power_w] * 4, "it is busy for ever")


def test_a_server_that_was_killed_is_not_busy(tmp_path: Path, gpus: SimulatedGpus) -> None:
    environment = {"DDQUEUE_SIM_GPUS": str(tmp_path / "gpus")}
    with running(tmp_path, environment=environment) as server, ThreadPoolExecutor() as pool:
        server.wait_ready()
        answer = pool.submit(server.generate, LONG)
        wait_until(lambda: gpus.busy() == {0}, "its load was never seen")
        server.process.kill()
        server.process.wait()
        assert gpus.busy() == set()
        assert list((tmp_path / "gpus").glob("busy-*")) == [], "what it left behind is swept"
        assert answer.exception() is not None


def test_a_hot_gpu_throttles_under_load_only(gpus: SimulatedGpus) -> None:
    gpus.faults.add(GpuFault.THROTTLE, 2)
    reader = SimulatedTelemetryReader(gpus)
    assert [sample.sm_clock_mhz for sample in reader.read()] == [IDLE.sm_clock_mhz] * 4
    gpus.work([2, 3], os.getpid(), True)
    shown = [(sample.sm_clock_mhz, sample.throttle_reasons) for sample in reader.read()]
    assert shown[2:] == [(pace.sm_clock_mhz, pace.throttle_reasons) for pace in (THROTTLED, BUSY)]
    gpus.faults.mend()
    assert reader.read()[2].sm_clock_mhz == BUSY.sm_clock_mhz


def test_a_hot_gpu_may_be_used(gpus: SimulatedGpus) -> None:
    gpus.faults.add(GpuFault.THROTTLE, 2)
    assert [reading.troubles for reading in gpus.read()] == [()] * 4


def test_nothing_simulated_passes_for_real(gpus: SimulatedGpus) -> None:
    samples = SimulatedTelemetryReader(gpus).read()
    assert all(sample.uuid.startswith("GPU-sim-") for sample in samples)
    assert [sample.energy_mj for sample in samples] == [None] * 4
