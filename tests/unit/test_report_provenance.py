"""How the report says what joins a box's GPUs, from what attempts recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddqueue.report.html.sections.provenance import FACTS

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence" / "2026-11-30-two-h200s"


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        (None, ""),
        (
            {"nvlinks": [{"active": 18, "version": "4.0"}] * 2, "matrix": [["X", "PHB"], ["PHB", "X"]]},
            "18 x NVLink 4.0",
        ),
        (
            {"nvlinks": [{"active": 0}] * 3, "matrix": [["X", "PIX", "SYS"], ["PIX", "X", "SYS"], ["SYS", "SYS", "X"]]},
            "PIX, SYS",
        ),
        ({"nvlinks": [], "matrix": [["X"]]}, ""),
    ],
)
def test_what_joins_the_gpus(topology: object, words: str) -> None:
    assert FACTS["joined by"]({"topology": topology}) == words


def test_a_real_attempt_over_two_gpus() -> None:
    job = json.loads((EVIDENCE / "two-crash-mended.json").read_text())[0]
    found = job["attempts"][-1]["provenance"]
    assert FACTS["joined by"](found) == "18 x NVLink 4.0"
    low, high = sorted(found["bandwidth"]["pairs"].values())
    assert FACTS["GPU to GPU, GB/s"](found) == f"{(low + high) / 2:.0f} ({low:.0f} to {high:.0f})"
    assert FACTS["NCCL"](found) == "2.28.9"
