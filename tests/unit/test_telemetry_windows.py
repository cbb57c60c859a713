"""One window of a GPU's readings: what is said of it, what is not, and what a person is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddqueue.domain.marks import Mark
from ddqueue.domain.metrics.energy import energy_j, energy_per_token_j
from ddqueue.domain.telemetry import GpuSample, GpuWindow, ThrottleReason, marks_of, window_of


def readings(powers: Iterable[tuple[float, float | None]], index: int = 0, **same: object) -> list[GpuSample]:
    """Samples of one GPU from (seconds, watts)."""
    return [
        GpuSample(index, f"GPU-{index}", at_s, power_w=power_w, **same)  # type: ignore[arg-type]
        for at_s, power_w in powers
    ]


def clocks(values: Iterable[int], every_s: float = 0.1) -> list[GpuSample]:
    return [GpuSample(0, "GPU-0", number * every_s, sm_clock_mhz=clock) for number, clock in enumerate(values)]


def only(samples: list[GpuSample], started_s: float, ended_s: float) -> GpuWindow:
    (window,) = window_of(samples, started_s, ended_s)
    return window


def test_the_mean_is_over_time_and_not_over_readings() -> None:
    """100 W for 0.8 s, then up to 200 W within 0.2 s, read more densely there."""
    samples = readings([(0.0, 100.0), (0.8, 100.0), (0.85, 125.0), (0.9, 150.0), (0.95, 175.0), (1.0, 200.0)])
    window = only(samples, 0.0, 1.0)
    assert window.power_mean_w == pytest.approx(110.0)
    assert window.energy_j == pytest.approx(110.0)
    assert (window.samples, window.power_max_w) == (6, 200.0)


def test_the_ends_are_interpolated_from_the_readings_outside() -> None:
    """A ramp of 100 W/s; the window from 0.25 to 0.75 s lies between readings at 0, 0.5 and 1 s."""
    window = only(readings([(0.0, 0.0), (0.5, 50.0), (1.0, 100.0)]), 0.25, 0.75)
    assert window.power_mean_w == pytest.approx(50.0)
    assert window.energy_j == pytest.approx(25.0)
    assert (window.samples, window.power_max_w) == (1, 50.0)


def test_what_lies_outside_does_not_count() -> None:
    """Idle before, 500 W within, idle afterwards."""
    inside = [(1.0 + number / 10, 500.0) for number in range(11)]
    window = only(readings([(0.0, 60.0), (0.9, 60.0), *inside, (2.1, 60.0), (9.0, 900.0)]), 1.0, 2.0)
    assert (window.power_mean_w, window.power_max_w) == (pytest.approx(500.0), 500.0)


def test_a_window_between_two_readings_has_a_mean_and_no_extremes() -> None:
    window = only(readings([(0.0, 100.0), (1.0, 200.0)], sm_clock_mhz=1980), 0.4, 0.6)
    assert window.samples == 0
    assert window.power_mean_w == pytest.approx(150.0)
    assert (window.power_max_w, window.sm_clock_min_mhz, window.temperature_max_c) == (None, None, None)


@pytest.mark.parametrize(
    "powers",
    [
        [(0.1, 100.0), (0.5, 100.0), (1.1, 100.0)],
        [(-0.1, 100.0), (0.5, 100.0), (0.9, 100.0)],
        [(0.5, 100.0)],
        [(-0.1, None), (0.5, None), (1.1, None)],
    ],
    ids=["begins too late", "ends too early", "one reading", "the driver cannot say"],
)
def test_a_window_that_is_not_covered_has_no_mean_and_no_energy(powers: list[tuple[float, float | None]]) -> None:
    window = only(readings(powers, temperature_c=50), 0.0, 1.0)
    assert (window.power_mean_w, window.energy_j) == (None, None)
    assert window.temperature_max_c == 50, "what was read is said"


def test_a_short_gap_is_bridged_and_a_long_one_is_not_made_up() -> None:
    """Two seconds without a reading, in a minute and in ten seconds."""
    with_gap = [(number / 10, 300.0) for number in range(601) if not 300 < number < 320]
    assert only(readings(with_gap), 0.0, 60.0).power_mean_w == pytest.approx(300.0)
    assert only(readings(with_gap), 25.0, 35.0).power_mean_w is None
    assert only(readings(with_gap), 0.0, 30.0).power_mean_w == pytest.approx(300.0), "a gap behind the window is none"


def test_only_the_part_of_a_gap_inside_the_window_counts() -> None:
    powers = [(number / 10, 300.0) for number in range(101)]
    assert only(readings([(-5.0, 300.0), *[(at_s + 0.2, watts) for at_s, watts in powers]]), 0.0, 10.0).energy_j == (
        pytest.approx(3000.0)
    )


def test_no_time_no_mean() -> None:
    window = only(readings([(0.0, 100.0), (1.0, 100.0)]), 0.5, 0.5)
    assert (window.samples, window.power_mean_w, window.energy_j) == (0, None, None)


def test_energy_is_the_counters_rise_where_there_is_one() -> None:
    """The counter has seen what the readings have not: 250 W where they say 100."""
    samples = [
        GpuSample(0, "GPU-0", at_s, power_w=100.0, energy_mj=7_000_000 + round(at_s * 250_000)) for at_s in (0, 1)
    ]
    window = only(samples, 0.2, 0.6)
    assert window.energy_j == pytest.approx(100.0)
    assert window.power_mean_w == pytest.approx(100.0)


@pytest.mark.parametrize("counter", [(5_000, 5_000, 5_000), (900_000, 950_000, 10)], ids=["stands still", "reset"])
def test_a_counter_that_counts_nothing_is_not_believed(counter: tuple[int, int, int]) -> None:
    samples = readings([(0.0, 100.0), (0.5, 100.0), (1.0, 100.0)])
    samples = [replace(sample, energy_mj=energy) for sample, energy in zip(samples, counter, strict=True)]
    assert only(samples, 0.0, 1.0).energy_j == pytest.approx(100.0)


def test_each_gpu_has_its_own_window_in_order_of_index() -> None:
    samples = readings([(0.0, 200.0), (1.0, 200.0)], index=2) + readings([(0.0, 100.0), (1.0, 100.0)], index=0)
    samples[0], samples[3] = samples[3], samples[0]
    assert [(one.index, one.uuid, one.power_mean_w) for one in window_of(samples, 0.0, 1.0)] == [
        (0, "GPU-0", 100.0),
        (2, "GPU-2", 200.0),
    ]
    assert window_of([], 0.0, 1.0) == ()


def test_extremes_and_reasons_are_of_the_readings_inside() -> None:
    samples = [
        GpuSample(0, "GPU-0", 0.0, 60.0, 345, 2619, 95, 90_000, (ThrottleReason.IDLE,)),
        GpuSample(0, "GPU-0", 1.0, 650.0, 1980, 3201, 60, 100_000, (ThrottleReason.POWER_CAP,)),
        GpuSample(0, "GPU-0", 1.5, 690.0, 1830, 3201, 71, 100_500),
        GpuSample(
            0, "GPU-0", 2.0, 680.0, 1905, 3201, None, None, (ThrottleReason.POWER_BRAKE, ThrottleReason.POWER_CAP)
        ),
        GpuSample(0, "GPU-0", 2.1, 60.0, 345, 2619, 96, 120_000, (ThrottleReason.HARDWARE_THERMAL,)),
    ]
    window = only(samples, 1.0, 2.0)
    assert (window.samples, window.sm_clock_min_mhz, window.sm_clock_max_mhz) == (3, 1830, 1980)
    assert (window.temperature_max_c, window.memory_used_max_mib, window.power_max_w) == (71, 100_500, 690.0)
    assert (window.sm_clock_mean_mhz, window.memory_clock_mean_mhz) == (pytest.approx(1886.25), pytest.approx(3201))
    assert window.throttle_reasons == (ThrottleReason.POWER_CAP, ThrottleReason.POWER_BRAKE)


@given(
    st.lists(st.floats(0.001, 0.9), min_size=2, max_size=40),
    st.lists(st.floats(0.0, 1200.0), min_size=41, max_size=41),
    st.floats(0.0, 1.0),
)
def test_two_halves_hold_the_energy_of_the_whole(steps_s: list[float], watts: list[float], share: float) -> None:
    at_s = [sum(steps_s[:number]) for number in range(len(steps_s) + 1)]
    samples = readings(zip(at_s, watts, strict=False))
    end_s = at_s[-1]
    middle_s = min(max(share * end_s, 1e-4), end_s - 1e-4)
    whole, first, second = (
        only(samples, *bounds).energy_j for bounds in ((0.0, end_s), (0.0, middle_s), (middle_s, end_s))
    )
    assert whole is not None
    assert first is not None
    assert second is not None
    assert first + second == pytest.approx(whole, rel=1e-6, abs=1e-6)
    assert min(watts) * end_s - 1e-6 <= whole <= max(watts) * end_s + 1e-6


WINDOW = only(readings([(0.0, 300.0), (1.0, 300.0)], sm_clock_mhz=1980), 0.0, 1.0)


@pytest.mark.parametrize(
    ("reason", "marks"),
    [
        (ThrottleReason.HARDWARE_SLOWDOWN, (Mark.THROTTLED,)),
        (ThrottleReason.HARDWARE_THERMAL, (Mark.THROTTLED,)),
        (ThrottleReason.SOFTWARE_THERMAL, (Mark.THROTTLED,)),
        (ThrottleReason.POWER_BRAKE, (Mark.THROTTLED,)),
        (ThrottleReason.POWER_CAP, (Mark.POWER_CAPPED,)),
        (ThrottleReason.IDLE, ()),
        (ThrottleReason.CLOCKS_SET, ()),
        (ThrottleReason.SYNC_BOOST, ()),
        (ThrottleReason.DISPLAY_CLOCKS, ()),
        (ThrottleReason.OTHER, ()),
    ],
)
def test_which_reason_brings_which_mark(reason: ThrottleReason, marks: tuple[Mark, ...]) -> None:
    assert marks_of([WINDOW, replace(WINDOW, index=1, throttle_reasons=(reason,))]) == marks


def test_a_clock_that_falls_or_rises_is_drift() -> None:
    falling = clocks([1980] * 20 + [1900] * 20 + [1830] * 21)
    window = only(falling, 0.0, 6.0)
    assert window.sm_clock_drift == pytest.approx(1830 / 1980 - 1)
    assert marks_of([window]) == (Mark.CLOCK_DRIFT,)
    rising = only(clocks([1830] * 20 + [1900] * 20 + [1980] * 21), 0.0, 6.0)
    assert marks_of([rising]) == (Mark.CLOCK_DRIFT,)


def test_a_step_or_two_of_the_clock_is_no_drift() -> None:
    window = only(clocks([1980, 1965] * 15 + [1965, 1950] * 15 + [1950]), 0.0, 6.0)
    assert -0.02 < (window.sm_clock_drift or 0.0) < 0
    assert marks_of([window]) == ()


def test_a_gpu_that_wakes_up_as_the_window_begins_does_not_drift() -> None:
    window = only(clocks([345, 1200] + [1980] * 29), 0.0, 3.0)
    assert window.sm_clock_min_mhz == 345
    assert window.sm_clock_drift == 0.0
    assert marks_of([window]) == ()


def test_too_few_readings_say_nothing_of_drift() -> None:
    window = only(clocks([1980, 1980, 1200, 1200]), 0.0, 0.3)
    assert window.sm_clock_drift is None
    assert marks_of([window]) == ()


@pytest.mark.parametrize(
    ("clocks_mhz", "marks"),
    [
        ([1980] * 7 + [1400], (Mark.UNEVEN_CLOCKS,)),
        ([1980] * 7 + [1900], ()),
        ([1980, 1400], (Mark.UNEVEN_CLOCKS,)),
        ([1400] * 7 + [1980], ()),
        ([1980, None], ()),
        ([1400], ()),
        ([], ()),
    ],
)
def test_one_gpu_much_slower_than_the_others(clocks_mhz: list[float | None], marks: tuple[Mark, ...]) -> None:
    windows = [replace(WINDOW, index=number, sm_clock_mean_mhz=clock) for number, clock in enumerate(clocks_mhz)]
    assert marks_of(windows) == marks


def test_energy_of_a_box_is_known_when_all_its_gpus_are() -> None:
    windows = [WINDOW, replace(WINDOW, index=1, energy_j=50.0)]
    assert energy_j(windows) == pytest.approx(350.0)
    assert energy_j([*windows, replace(WINDOW, energy_j=None)]) is None
    assert energy_j([]) is None
    assert energy_per_token_j([], energy_j(windows)) is None
