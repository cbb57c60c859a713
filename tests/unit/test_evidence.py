"""What docs/evidence claims, computed again from the raw rows that lie beside it."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

H200 = Path(__file__).parents[2] / "docs" / "evidence" / "2026-11-29-h200"


def jobs(name: str) -> dict[str, dict[str, Any]]:
    return {job["label"]: job for job in json.loads((H200 / f"{name}.json").read_text())}


def rows(job: dict[str, Any], concurrency: int | None = None) -> list[dict[str, Any]]:
    found = job["attempts"][-1]["measurements"]
    return [row for row in found if concurrency in (None, row["concurrency"])]


@pytest.mark.parametrize(
    ("label", "said", "low", "high"), [("bs8 none", 3.33, 3.13, 3.36), ("bs16 none", 2.19, 2.03, 2.11)]
)
def test_acceptance_by_sums_is_within_what_is_known(label: str, said: float, low: float, high: float) -> None:
    measured = rows(jobs("real-dflash")[label])
    assert all(row["valid"] and not row["simulated"] for row in measured)
    length = 1 + sum(row["correct_drafts"] for row in measured) / sum(row["verifies"] for row in measured)
    assert length == pytest.approx(said, abs=0.005)
    assert low - 0.15 <= length <= high + 0.15


@pytest.mark.parametrize(("concurrency", "margin"), [(1, 1.60), (8, 1.74), (32, 1.70)])
def test_the_margin_at_block_8(concurrency: int, margin: float) -> None:
    base, spec = (rows(jobs("real-dflash")[label], concurrency) for label in ("baseline", "bs8 none"))
    length = 1 + sum(row["correct_drafts"] for row in spec) / sum(row["verifies"] for row in spec)
    break_even = fmean(row["step_time_ms"] for row in spec) / fmean(row["step_time_ms"] for row in base)
    assert length - break_even == pytest.approx(margin, abs=0.01)
    assert fmean(row["itl_mean_ms"] for row in spec) < fmean(row["itl_mean_ms"] for row in base)


def test_only_the_untrained_block_size_got_the_engines_warning() -> None:
    warned = {
        label: any("block size mismatch" in line for line in job["attempts"][0]["provenance"]["engine_warnings"])
        for label, job in jobs("real-dflash").items()
    }
    assert warned == {"baseline": False, "bs8 none": False, "bs16 none": True}


@pytest.mark.parametrize(
    ("name", "outcomes"),
    [
        ("real-faults", ["CONFIG_OVERRIDDEN", "KV_TOO_SMALL", "BAD_ARGS", None]),
        ("real-bad-flag", ["BAD_ARGS"]),
        ("real-crash", ["SERVER_CRASHED"]),
        ("real-busy", [None]),
    ],
)
def test_each_fault_has_its_class(name: str, outcomes: list[str | None]) -> None:
    assert [job["attempts"][0]["failure"] for job in jobs(name).values()] == outcomes
