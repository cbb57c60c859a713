"""A run of a sweep at the pace of another one: a machine that was busier changes nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from pace import host_seconds

START = datetime(2025, 1, 2, tzinfo=UTC)


def job(
    label: str, alone_s: Sequence[float], batch_s: Sequence[float] = (), rest_s: float = 4.0, host: str = "rtx6000"
) -> dict[str, Any]:
    """One that took so long for each repeat at both points, in turns, and `rest_s` for all else."""
    taken = [(1, one) for one in alone_s] + [(8, one) for one in batch_s]
    at = [START + timedelta(seconds=number) for number in range(len(taken))]
    rows = [
        {"concurrency": concurrency, "context_tokens": 60, "output_tokens_asked": 64, "started_at": moment}
        for (concurrency, _), moment in zip(taken, at, strict=True)
    ]
    phases = [{"name": "ready", "duration_s": 1.5}, *({"name": "measure", "duration_s": one} for _, one in taken)]
    ended = START + timedelta(seconds=rest_s + sum(one for _, one in taken))
    attempt = {"started_at": START, "phases": phases, "measurements": list(reversed(rows))}
    return {"host": host, "label": label, "finished_at": ended, "attempts": [attempt]}


PLAIN = [
    job("baseline", [0.4, 0.6], [1.0, 2.0]),
    job("b8 t4", [0.2, 0.2], [1.0, 1.0]),
    job("baseline", [0.5, 0.5], [1.5, 1.5], rest_s=6.0),
    job("b8 t4", [0.1, 0.1], [0.5, 0.5], rest_s=3.0, host="b300"),
]


def test_a_run_at_its_own_pace_takes_its_own_time() -> None:
    assert host_seconds(PLAIN, PLAIN) == {"rtx6000": pytest.approx(8.0 + 6.4 + 10.0), "b300": pytest.approx(4.2)}


def test_fewer_repeats_are_counted_and_a_slower_machine_is_not() -> None:
    shortened = [
        job("baseline", [5.0], [9.0, 9.0, 9.0], rest_s=40.0),
        job("b8 t4", [7.0], rest_s=40.0),
        {"host": "rtx6000", "label": "b8 t4", "finished_at": START, "attempts": []},
    ]
    # The baseline's rest is 5.0 s in the mean; its repeats 0.5 s alone and 1.5 s in a batch.
    assert host_seconds(shortened, PLAIN) == {"rtx6000": pytest.approx((5.0 + 0.5 + 4.5) + (4.0 + 0.2))}
