"""Every query of docs/sql.md answers its question: on a sweep whose numbers are known, it gives the known rows."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from known_sweep import B4, B8, B16, BS16, stored_known_sweep
from sql_questions import DOCUMENT, questions

from ddqueue.domain.failures import POLICIES, Failure
from ddqueue.storage.asking import ask

ANSWERS: dict[int, list[tuple[Any, ...]]] = {
    1: [
        ("b300", B8, 200, 194, 206, 419.6),
        ("b300", B16, 101, 98, 104, 419.6),
        ("b300", "baseline", 80, 76, 84, 419.6),
        ("rtx6000", B8, 100, 97, 103, 419.6),
        ("rtx6000", B4, 80, 78, 82, 419.6),
        ("rtx6000", B16, 72, 70, 74, 419.6),
        ("rtx6000", "baseline", 40, 38, 42, 419.6),
    ],
    2: [
        ("rtx6000", B8, 1, 4.0, 1.6, 2.4),
        ("rtx6000", B16, 1, 4.5, 2.5, 2.0),
        ("rtx6000", B4, 1, 3.0, 1.5, 1.5),
        ("rtx6000", BS16, 1, 2.8, 2.0, 0.8),
        ("rtx6000", B4, 32, 3.0, 2.5, 0.5),
        ("rtx6000", B8, 32, 4.0, 4.4, -0.4),
        ("rtx6000", B16, 32, 4.5, 6.0, -1.5),
        ("rtx6000", BS16, 32, 2.8, 4.4, -1.6),
    ],
    3: [
        (B16, 0.71, 0.70, 0.73, 2.0),
        (B8, 0.5, 0.49, 0.51, 2.0),
        ("baseline", 0.5, 0.48, 0.52, 2.0),
        (BS16, 0.5, 0.49, 0.51, 2.0),
    ],
    4: [(B16, "b300", 3.15, "rtx6000", 4.5)],
    5: [
        ("b300", B8, 1, 200, 200),
        ("b300", "baseline", 32, 40, 1280),
        ("rtx6000", B8, 1, 100, 100),
        ("rtx6000", B4, 32, 24, 768),
    ],
    6: [
        (host, concurrency, context, 3, 1, 12.9)
        for host in ("b300", "rtx6000")
        for concurrency, context in ((1, 60), (1, 4096), (32, 4096))
    ],
    7: [
        ("rtx6000", 1, 60, 100, 105, 5, False),
        ("rtx6000", 1, 4096, 80, 100, 25, True),
        ("rtx6000", 32, 4096, 768, 582, -24, True),
    ],
    8: [
        (1, 540, 900, 0.60),
        (2, 360, 540, 0.67),
        (3, 270, 360, 0.75),
        (4, 180, 270, 0.67),
        (5, 135, 180, 0.75),
        (6, 90, 135, 0.67),
        (7, 45, 90, 0.50),
        (8, 0, 45, 0.00),
        *((depth, 0, 0, None) for depth in range(9, 16)),
    ],
    9: [
        ("b300", "NCCL_HANG", "transient", 1, POLICIES[Failure.NCCL_HANG].remedy),
        ("b300", "OOM_CAPTURE", "configuration", 1, POLICIES[Failure.OOM_CAPTURE].remedy),
        ("rtx6000", "LEASE_LOST", "transient", 1, POLICIES[Failure.LEASE_LOST].remedy),
    ],
    10: [("b300", B4, 1, "failed", "OOM_CAPTURE", "out of memory: 2.00 GiB")],
    11: [
        ("b300", "measure", 54, 2160),
        ("b300", "ready", 6, 360),
        ("b300", "stop", 6, 30),
        ("b300", "launch", 6, 6),
        ("rtx6000", "measure", 63, 2520),
        ("rtx6000", "ready", 7, 420),
        ("rtx6000", "stop", 7, 35),
        ("rtx6000", "launch", 7, 7),
    ],
    12: [("b300", 7, 840, 120), ("rtx6000", 7, 840, 120)],
    13: [
        ("rtx6000", B4, 1, 60, 3, 1, ["SHORT_OUTPUT"], []),
        ("rtx6000", B8, 32, 4096, 3, 0, [], ["POWER_CAPPED"]),
    ],
    14: [("b300", BS16, 4, 5), ("rtx6000", BS16, 4, 5)],
    15: [("ddtree-block8", 1, 40.0, 3), ("ddtree-again", 1, 38.8, 1)],
}
"""Worked out from the tables in known_sweep.py: 100 tok/s is 1000 * 4.0 / (25 * 1.6), and so on."""


def test_every_question_has_its_known_answer(database_url: str) -> None:
    with stored_known_sweep(database_url):
        given = {question.number: ask(database_url, question.query, 30).rows for question in questions()}
    assert list(given) == list(ANSWERS) == list(range(1, 16))
    for number, rows in given.items():
        assert [_plain(row) for row in rows] == [_near(row) for row in ANSWERS[number]], f"question {number}"


def test_the_document_names_every_view(database_url: str) -> None:
    views = ask(database_url, "SELECT viewname FROM pg_views WHERE schemaname = 'public' ORDER BY 1", 30).rows
    named = re.findall(r"^\| `(\w+)` \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == [name for (name,) in views]


def _plain(row: tuple[Any, ...]) -> list[Any]:
    return [float(value) if isinstance(value, Decimal) else value for value in row]


def _near(row: tuple[Any, ...]) -> list[Any]:
    """Counts and texts exactly; the last digit of a division as it comes."""
    return [pytest.approx(value) if isinstance(value, float) else value for value in row]
