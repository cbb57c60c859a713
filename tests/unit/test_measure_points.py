"""What a measurement is told by the load client, the GPUs and the server's log."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ddqueue.domain.failures import Failure
from ddqueue.domain.marks import Mark
from ddqueue.domain.measurement import Invalid, Measurement, PointRun, RequestRecord
from ddqueue.domain.metrics.summary import measure
from ddqueue.domain.sweep import Point
from ddqueue.domain.telemetry import GpuSample, ThrottleReason, window_of
from ddqueue.services.measure_points import judged, without_numbers


def a_measurement(verifies: int | None = 20, correct: int | None = 40, output: int = 60) -> Measurement:
    arrivals = ((1.0, 4), (2.0, output))
    request = RequestRecord(0, 0.0, 2.0, 10, output, 0, arrivals, verifies, correct, finish_reason="length", tag="ours")
    run = PointRun(Point(1, 10, 60), 1, datetime(2026, 1, 2, tzinfo=UTC), 2.0, (request,), client={"cpu_s": 0.1})
    return measure(run, "ours")


def gpus(power_w: tuple[float, ...], reasons: tuple[ThrottleReason, ...] = ()) -> tuple[GpuSample, ...]:
    return tuple(
        GpuSample(index, f"GPU-{index}", at / 10, power_w=power, sm_clock_mhz=1500, throttle_reasons=reasons)
        for index, power in enumerate(power_w)
        for at in range(-1, 23)
    )


def test_nothing_said_changes_nothing() -> None:
    assert judged(a_measurement(), None, (), compiled=False) == a_measurement()


def test_a_compile_inside_the_window_is_no_speed() -> None:
    found = judged(a_measurement(), None, (), compiled=True)
    assert (found.reasons, found.valid) == ((Invalid.COMPILED,), False)


def test_a_client_that_was_the_limit_says_how() -> None:
    found = judged(a_measurement(), "its one thread was busy for 97% of the window", (), compiled=False)
    assert found.reasons == (Invalid.CLIENT_BOUND,)
    assert found.client == {"cpu_s": 0.1, "trouble": "its one thread was busy for 97% of the window"}
    failure = without_numbers(found)
    assert failure.failure is Failure.CLIENT_BOUND
    assert "97% of the window" in failure.evidence


def test_energy_counts_every_gpu_and_a_token_once() -> None:
    found = judged(a_measurement(), None, window_of(gpus((300.0, 100.0)), 0.0, 2.0), compiled=False)
    assert [gpu.energy_j for gpu in found.gpus] == pytest.approx([600.0, 200.0])
    assert found.energy_per_token_j == pytest.approx(800 / 60)
    assert found.valid


def test_energy_of_some_of_the_gpus_is_no_energy() -> None:
    samples = (*gpus((300.0,)), GpuSample(1, "GPU-1", 1.0))
    assert judged(a_measurement(), None, window_of(samples, 0.0, 2.0), compiled=False).energy_per_token_j is None


def test_a_hot_gpu_marks_the_row_and_leaves_it_valid() -> None:
    samples = gpus((300.0,), (ThrottleReason.HARDWARE_THERMAL,))
    found = judged(a_measurement(), None, window_of(samples, 0.0, 2.0), compiled=False)
    assert (found.marks, found.valid) == ((Mark.THROTTLED,), True)


@pytest.mark.parametrize(("verifies", "correct", "marks"), [(20, 0, (Mark.NO_BENEFIT,)), (20, 1, ()), (None, None, ())])
def test_a_drafter_without_one_accepted_draft_is_marked(
    verifies: int | None, correct: int | None, marks: tuple[Mark, ...]
) -> None:
    assert judged(a_measurement(verifies, correct), None, (), compiled=False).marks == marks


def test_a_short_answer_keeps_its_class() -> None:
    assert without_numbers(a_measurement(output=30)).failure is Failure.SHORT_OUTPUT
