"""The load client as the limit, told from a slow server by one run's records and the client's own figures."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ddqueue.domain.client_bound import client_trouble, empty_place_s
from ddqueue.domain.measurement import PointRun, RequestRecord
from ddqueue.domain.sweep import Point

HEALTHY = {"loop_lag_max_ms": 8.5, "run_queue_s": 0.4, "run_queue_mean_ms": 0.2, "cpu_s": 0.4, "in_flight_mean": 31.9}


def request(index: int, started_s: float, finished_s: float, gap_s: float = 0.02) -> RequestRecord:
    """An answer of four tokens a chunk, the first after 0.2 s and then one every `gap_s` to its end."""
    chunks = max(1, round((finished_s - started_s - 0.2) / gap_s) + 1)
    arrivals = tuple((started_s + 0.2 + number * gap_s, 4 * (number + 1)) for number in range(chunks))
    return RequestRecord(index, started_s, finished_s, 60, chunks * 4, 0, arrivals)


def run(*requests: RequestRecord, concurrency: int | None = None, **figures: float) -> PointRun:
    return PointRun(
        Point(concurrency or len(requests), 60, 256),
        repeat=1,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        wall_s=max(one.finished_s for one in requests),
        requests=requests,
        client={**HEALTHY, **figures},
    )


def together(count: int, length_s: float = 2.0) -> list[RequestRecord]:
    return [request(index, 0.0005 * index, 0.0005 * index + length_s) for index in range(count)]


def test_a_client_that_keeps_up_is_in_no_trouble() -> None:
    assert client_trouble(run(*together(32))) is None


def test_answers_that_end_one_after_another_are_the_servers_doing() -> None:
    ragged = [request(index, 0.0, 1.0 + index) for index in range(8)]
    assert client_trouble(run(*ragged)) is None
    assert empty_place_s(tuple(ragged), 8) == 0.0


def test_a_client_that_starts_its_requests_late_does_not_keep_the_asked_concurrency() -> None:
    late = [request(index, 0.1 * index, 0.1 * index + 2.0) for index in range(8)]
    assert empty_place_s(tuple(late), 8) == pytest.approx(0.35)
    trouble = client_trouble(run(*late))
    assert trouble is not None
    assert "7.0 of 8 requests in flight" in trouble
    assert "empty for 0.35 of 2.70 s" in trouble


def test_a_client_that_lets_a_place_stand_empty_between_two_requests() -> None:
    rounds = [request(2 * turn + place, 1.5 * turn, 1.5 * turn + 1.2) for turn in range(4) for place in range(2)]
    assert empty_place_s(tuple(rounds), 2) == pytest.approx(0.9)
    trouble = client_trouble(run(*rounds, concurrency=2))
    assert trouble is not None
    assert "of 2 requests in flight" in trouble


def test_places_that_no_request_is_left_for_are_not_empty() -> None:
    assert client_trouble(run(*together(3), concurrency=32)) is None


@pytest.mark.parametrize(
    ("pause_ms", "length_s", "words"),
    [
        (90.0, 1.0, None),
        (110.0, 30.0, "0.11 s, in a window of 30.00 s"),
        (98.0, 30.0, None),
        (150.0, 2.0, "0.15 s, in a window of 2.00 s"),
    ],
)
def test_a_pause_counts_against_what_it_bends(pause_ms: float, length_s: float, words: str | None) -> None:
    """The window's end, of which a twentieth may be bent; and the first tokens, 0.2 s after their requests."""
    trouble = client_trouble(run(request(0, 0.0, length_s), loop_lag_max_ms=pause_ms))
    assert (trouble is None) if words is None else (trouble is not None and words in trouble)


@pytest.mark.parametrize(("late_ms", "gap_s", "in_trouble"), [(4.9, 0.02, False), (6.0, 0.02, True), (6.0, 0.2, False)])
def test_late_turns_count_against_the_gap_between_chunks(late_ms: float, gap_s: float, in_trouble: bool) -> None:
    trouble = client_trouble(run(request(0, 0.0, 4.2, gap_s), run_queue_mean_ms=late_ms))
    assert (trouble is not None) is in_trouble
    assert trouble is None or f"{late_ms} ms for a CPU" in trouble


def test_a_large_share_of_the_window_in_the_queue_bends_nothing_when_every_turn_was_prompt() -> None:
    assert client_trouble(run(*together(32), run_queue_s=1.2, run_queue_mean_ms=0.3)) is None


def test_a_client_near_one_whole_core() -> None:
    assert client_trouble(run(*together(8), cpu_s=1.7)) is None
    trouble = client_trouble(run(*together(8), cpu_s=1.95))
    assert trouble is not None
    assert "1.95 s of CPU" in trouble


def test_a_window_of_milliseconds_is_not_judged_by_its_cpu() -> None:
    assert client_trouble(run(request(0, 0.0, 0.05), cpu_s=0.05)) is None


def test_figures_that_the_kernel_did_not_tell_are_no_trouble() -> None:
    bare = PointRun(Point(1, 60, 8), 1, datetime(2026, 1, 1, tzinfo=UTC), 2.0, (request(0, 0.0, 2.0),))
    assert client_trouble(bare) is None


def test_a_run_of_failures_has_nothing_to_judge() -> None:
    failed = RequestRecord(0, 0.0, 0.0, error="ConnectionRefusedError")
    assert client_trouble(PointRun(Point(1, 60, 8), 1, datetime(2026, 1, 1, tzinfo=UTC), 0.0, (failed,))) is None
