"""One suite for all telemetry: of simulated GPUs, and NVML's over a driver that answers from a list.

The real driver answers the same questions in tests/gpu/test_telemetry.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pynvml
import pytest
from fake_nvml import FakeNvml, eight_gpus
from sim_server import wait_until

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.marks import Mark
from ddqueue.domain.telemetry import GpuSample, GpuWindow, ThrottleReason, marks_of, window_of
from ddqueue.gpu.nvml import NvmlInspector
from ddqueue.gpu.nvml_telemetry import NvmlTelemetryReader
from ddqueue.gpu.telemetry import GpuTelemetry, TelemetryReader
from ddqueue.ports import Telemetry
from ddqueue.sim.gpu_faults import GpuFault
from ddqueue.sim.gpus import SimulatedGpus
from ddqueue.sim.telemetry import SimulatedTelemetryReader

INTERVAL_S = 0.002
READINGS = 16
"""Of each GPU in one window: some in each of its thirds."""


@dataclass(frozen=True)
class Box:
    """Eight GPUs. `work` puts load on some or ends it; `heat` makes one too hot under load; `lose` takes all away."""

    reader: TelemetryReader
    work: Callable[[Sequence[int], bool], None]
    heat: Callable[[int], None]
    lose: Callable[[], None]
    uuids: list[str]

    @property
    def telemetry(self) -> Telemetry:
        return GpuTelemetry(self.reader, INTERVAL_S)

    def window(self) -> tuple[GpuWindow, ...]:
        """One measured window, in which every GPU was read several times."""
        with self.telemetry.watch() as recording:
            started_s = time.monotonic()
            wait_until(lambda: _inside(recording.samples(), started_s) >= READINGS * 8, "no more readings came")
            ended_s = time.monotonic()
        return window_of(recording.samples(), started_s, ended_s)


def _inside(samples: Sequence[GpuSample], started_s: float) -> int:
    return sum(sample.at_s >= started_s for sample in samples)


def nvml_box(folder: Path) -> Box:
    nvml = FakeNvml(eight_gpus())

    def work(gpus: Sequence[int], is_busy: bool) -> None:
        for index in gpus:
            gpu = nvml.gpus[index]
            gpu.power_mw, gpu.sm_clock_mhz = (640_000, 1980) if is_busy else (76_000, 345)
            gpu.reasons = pynvml.nvmlClocksEventReasonNone if is_busy else pynvml.nvmlClocksEventReasonGpuIdle

    def heat(index: int) -> None:
        gpu = nvml.gpus[index]
        gpu.temperature_c, gpu.power_mw, gpu.sm_clock_mhz = 93, 350_000, 900
        gpu.reasons = pynvml.nvmlClocksEventReasonHwSlowdown | pynvml.nvmlClocksEventReasonHwThermalSlowdown

    def lose() -> None:
        for gpu in nvml.gpus:
            gpu.raises["nvmlDeviceGetMemoryInfo"] = pynvml.NVML_ERROR_GPU_IS_LOST

    return Box(NvmlTelemetryReader(NvmlInspector(nvml), nvml), work, heat, lose, [gpu.uuid for gpu in nvml.gpus])


def simulated_box(folder: Path) -> Box:
    gpus = SimulatedGpus.create(folder / "box", 8, "NVIDIA H200", 143771)
    return Box(
        SimulatedTelemetryReader(gpus),
        lambda indexes, is_busy: gpus.work(indexes, os.getpid(), is_busy),
        lambda index: gpus.faults.add(GpuFault.THROTTLE, index),
        lambda: gpus.faults.add(GpuFault.LOST, 0),
        [f"GPU-sim-box-{index}" for index in range(8)],
    )


@pytest.fixture(params=[nvml_box, simulated_box], ids=["nvml", "simulated"])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Box:
    make: Callable[[Path], Box] = request.param
    return make(tmp_path)


def test_every_gpu_is_read_in_pci_order_with_the_moment(box: Box) -> None:
    before_s = time.monotonic()
    samples = box.reader.read()
    after_s = time.monotonic()
    assert [sample.index for sample in samples] == list(range(8))
    assert [sample.uuid for sample in samples] == box.uuids
    stamps = [sample.at_s for sample in samples]
    assert stamps == sorted(stamps)
    assert before_s <= stamps[0]
    assert stamps[-1] <= after_s


def test_an_idle_gpu_says_so(box: Box) -> None:
    for sample in box.reader.read():
        assert sample.throttle_reasons == (ThrottleReason.IDLE,)
        assert sample.power_w is not None
        assert 0 < sample.power_w < 100
        assert sample.memory_used_mib in (0, 4)
        assert sample.temperature_c in range(20, 50)
        assert sample.memory_clock_mhz


def test_load_is_seen_on_the_gpus_that_carry_it_until_it_ends(box: Box) -> None:
    idle = box.reader.read()
    box.work([2, 3], True)
    loaded = box.reader.read()
    for before, sample in zip(idle, loaded, strict=True):
        assert (sample.power_w > before.power_w) is (sample.index in (2, 3))  # type: ignore[operator]
        assert (sample.sm_clock_mhz > before.sm_clock_mhz) is (sample.index in (2, 3))  # type: ignore[operator]
        assert (sample.throttle_reasons == ()) is (sample.index in (2, 3))
    box.work([2, 3], False)
    assert [sample.power_w for sample in box.reader.read()] == [sample.power_w for sample in idle]


def test_a_window_under_even_load_has_no_marks(box: Box) -> None:
    box.work(range(8), True)
    windows = box.window()
    assert [(window.index, window.uuid) for window in windows] == list(enumerate(box.uuids))
    for window in windows:
        assert window.samples >= READINGS
        assert window.power_mean_w == pytest.approx(window.power_max_w)
        assert window.energy_j is not None
        assert window.energy_j > 0
        assert window.sm_clock_drift == 0.0
    assert marks_of(windows) == ()


def test_one_gpu_that_is_too_hot_is_marked_and_named(box: Box) -> None:
    box.work(range(8), True)
    box.heat(5)
    windows = box.window()
    assert marks_of(windows) == (Mark.THROTTLED, Mark.UNEVEN_CLOCKS)
    assert [window.index for window in windows if window.throttle_reasons] == [5]
    assert windows[5].throttle_reasons == (ThrottleReason.HARDWARE_SLOWDOWN, ThrottleReason.HARDWARE_THERMAL)
    assert (windows[5].temperature_max_c or 0) > 90


def test_gpus_that_cannot_be_read_are_a_gap_and_no_error(box: Box) -> None:
    box.reader.read()
    box.lose()
    with pytest.raises(AttemptFailure) as refusal:
        box.reader.read()
    assert refusal.value.failure is Failure.GPU_LOST
    with box.telemetry.watch() as recording:
        pass
    assert recording.samples() == ()
