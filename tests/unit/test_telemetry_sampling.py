"""The thread that reads GPUs beside a measurement: it reaches beyond both ends, and never disturbs what goes on."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from sim_server import wait_until

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.telemetry import GpuSample, window_of
from ddqueue.gpu.telemetry import GpuTelemetry
from ddqueue.ports import Telemetry

INTERVAL_S = 0.001


class Reader:
    """Two GPUs of constant power; `trouble` is what the next readings do instead."""

    def __init__(self) -> None:
        self.trouble: Callable[[], None] = lambda: None
        self.passes = 0

    def read(self) -> Sequence[GpuSample]:
        self.passes += 1
        self.trouble()
        return [GpuSample(index, f"GPU-{index}", time.monotonic(), power_w=100.0) for index in (0, 1)]


def lost() -> None:
    raise AttemptFailure(Failure.GPU_LOST, "GPU 0 does not answer")


def broken() -> None:
    raise KeyError("no such GPU")


def is_watching() -> bool:
    return any(thread.name == "gpu telemetry" for thread in threading.enumerate())


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def telemetry(reader: Reader) -> Telemetry:
    return GpuTelemetry(reader, INTERVAL_S)


def test_the_samples_reach_beyond_both_ends_of_what_was_watched(telemetry: Telemetry) -> None:
    with telemetry.watch() as recording:
        started_s = time.monotonic()
        ended_s = time.monotonic()
    stamps = [sample.at_s for sample in recording.samples()]
    assert stamps == sorted(stamps)
    assert stamps[0] <= started_s
    assert stamps[-1] >= ended_s
    assert [window.power_mean_w for window in window_of(recording.samples(), started_s, ended_s)] == [
        pytest.approx(100.0)
    ] * 2


def test_it_goes_on_reading_meanwhile(telemetry: Telemetry, reader: Reader) -> None:
    with telemetry.watch() as recording:
        wait_until(lambda: len(recording.samples()) >= 20, "no more readings came")
    assert len(recording.samples()) == 2 * reader.passes


def test_nothing_runs_while_nobody_watches(telemetry: Telemetry, reader: Reader) -> None:
    assert not is_watching()
    with telemetry.watch():
        assert is_watching()
    assert not is_watching()
    passes = reader.passes
    with telemetry.watch() as second:
        pass
    assert len(second.samples()) == 2 * (reader.passes - passes), "each watch has its own samples"


def test_a_reading_that_fails_is_a_gap_said_once(
    telemetry: Telemetry, reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    reader.trouble = lost
    with caplog.at_level(logging.WARNING), telemetry.watch() as recording:
        wait_until(lambda: reader.passes >= 5, "it reads no more")
        assert recording.samples() == ()
        reader.trouble = lambda: None
        wait_until(lambda: len(recording.samples()) > 0, "it never recovered")
    assert [record.getMessage() for record in caplog.records] == [
        "a gap in the GPUs' telemetry, and perhaps more: GPU 0 does not answer"
    ]


def test_a_thread_that_dies_is_said_once_and_disturbs_nothing(
    telemetry: Telemetry, reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), telemetry.watch() as recording:
        first = len(recording.samples())
        assert first >= 2
        reader.trouble = broken
        wait_until(lambda: not is_watching(), "the thread lives on")
    (record,) = caplog.records
    assert "has ended early" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError


def test_a_thread_that_dies_at_once_holds_nobody_up(telemetry: Telemetry, reader: Reader) -> None:
    reader.trouble = broken
    with telemetry.watch() as recording:
        pass
    assert recording.samples() == ()


def test_without_a_thread_there_is_no_telemetry_and_no_error(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with telemetry.watch() as recording:
        pass
    assert recording.samples() == ()
    assert "nothing is read in this window" in caplog.text


def test_an_error_of_the_measurement_is_passed_on_and_ends_the_watching(telemetry: Telemetry) -> None:
    with pytest.raises(AttemptFailure, match="does not answer"), telemetry.watch():
        lost()
    assert not is_watching()


def test_a_slow_driver_is_left_in_peace_half_of_the_time(reader: Reader) -> None:
    """Whatever the machine's own delays, a pass of 20 ms is followed by at least as long a pause."""
    reader.trouble = lambda: time.sleep(0.02)
    with GpuTelemetry(reader, INTERVAL_S).watch() as recording:
        wait_until(lambda: len(recording.samples()) >= 8, "no more readings came")
    stamps = [sample.at_s for sample in recording.samples() if sample.index == 0][:-1]  # the last one comes at once
    assert all(later - earlier >= 0.039 for earlier, later in pairwise(stamps))
