"""The real driver answers what the conformance suite asks of all telemetry; nothing on the machine is changed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from ddqueue.domain.metrics.energy import energy_j
from ddqueue.domain.telemetry import ThrottleReason, marks_of, window_of
from ddqueue.gpu.nvml import NvmlInspector
from ddqueue.gpu.nvml_telemetry import NvmlTelemetryReader
from ddqueue.gpu.telemetry import INTERVAL_S, GpuTelemetry
from ddqueue.gpu.visible import cuda_environment

pytestmark = pytest.mark.gpu

WINDOW_S = 10.0
AGREEMENT = 0.1
"""Between the driver's energy counter and its power readings integrated: an H100 looks at its sensor for a quarter of
the time, so that the two need not see the same."""

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch in this interpreter")

WORKER = """
import torch
factors = [torch.randn(8192, 8192, dtype=torch.bfloat16, device=f"cuda:{i}") for i in range(torch.cuda.device_count())]
for _ in range(50):
    products = [factor @ factor for factor in factors]
for i in range(len(factors)):
    torch.cuda.synchronize(i)
print("working", flush=True)
while True:
    for _ in range(20):
        products = [factor @ factor for factor in factors]
    for i in range(len(factors)):
        torch.cuda.synchronize(i)
"""


@pytest.fixture
def inspector() -> Iterator[NvmlInspector]:
    made = NvmlInspector()
    yield made
    made.close()


@pytest.fixture
def reader(inspector: NvmlInspector) -> Iterator[NvmlTelemetryReader]:
    made = NvmlTelemetryReader(inspector)
    yield made
    made.close()


@contextmanager
def all_gpus_at_work(inspector: NvmlInspector) -> Iterator[None]:
    """One process multiplies matrices on every GPU."""
    environment = os.environ | cuda_environment(inspector.read())
    worker = subprocess.Popen([sys.executable, "-c", WORKER], stdout=subprocess.PIPE, env=environment)
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"working\n"
        yield
    finally:
        worker.kill()
        worker.wait()


def test_every_gpu_says_everything(inspector: NvmlInspector, reader: NvmlTelemetryReader) -> None:
    gpus = inspector.read()
    samples = reader.read()
    assert [(sample.index, sample.uuid) for sample in samples] == [(gpu.index, gpu.uuid) for gpu in gpus]
    for sample, gpu in zip(samples, gpus, strict=True):
        assert sample.power_w is not None
        assert 5 < sample.power_w < 2000
        assert sample.sm_clock_mhz
        assert sample.memory_clock_mhz
        assert sample.temperature_c in range(10, 100)
        assert sample.memory_used_mib is not None
        assert sample.memory_used_mib <= gpu.memory_total_mib
        assert sample.energy_mj
        assert ThrottleReason.OTHER not in sample.throttle_reasons


def test_what_a_pass_costs(reader: NvmlTelemetryReader) -> None:
    """No more passes than asked for; the CPU that they take is printed."""
    gpus = len(reader.read())
    telemetry = GpuTelemetry(reader)
    cpu_s, wall_s = time.process_time(), time.monotonic()
    with telemetry.watch() as recording:
        time.sleep(3)
    cpu_s, wall_s = time.process_time() - cpu_s, time.monotonic() - wall_s
    passes = len(recording.samples()) / gpus
    print(f"{passes:.0f} passes over {gpus} GPUs: {cpu_s / passes * 1000:.2f} ms of CPU each, {cpu_s / wall_s:.1%}")
    assert 2 <= passes <= wall_s / INTERVAL_S + 2


@needs_torch
def test_a_window_under_load(inspector: NvmlInspector, reader: NvmlTelemetryReader) -> None:
    idle_w = [sample.power_w or 0.0 for sample in reader.read()]
    with all_gpus_at_work(inspector), GpuTelemetry(reader).watch() as recording:
        time.sleep(1)
        started_s = time.monotonic()
        time.sleep(WINDOW_S)
        ended_s = time.monotonic()
    samples = recording.samples()
    counted = window_of(samples, started_s, ended_s)
    integrated = window_of([replace(sample, energy_mj=None) for sample in samples], started_s, ended_s)
    assert len(counted) == len(idle_w)
    for window, without_counter, watts in zip(counted, integrated, idle_w, strict=True):
        assert window.samples > WINDOW_S / INTERVAL_S / 2
        assert window.power_mean_w is not None
        assert window.power_mean_w > watts + 50
        assert window.sm_clock_mean_mhz is not None
        assert window.sm_clock_mean_mhz > 500
        assert ThrottleReason.IDLE not in window.throttle_reasons
        print(
            f"GPU {window.index}: counter {window.energy_j:.0f} J, readings {without_counter.energy_j:.0f} J; {window}"
        )
        assert window.energy_j == pytest.approx(without_counter.energy_j, rel=AGREEMENT)
    print(f"{energy_j(counted):.0f} J in all; marks: {', '.join(marks_of(counted)) or 'none'}")
