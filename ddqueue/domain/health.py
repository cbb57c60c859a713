"""What an examination of a host finds: checks with a verdict and a remedy, and which of several equal parts is slow."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import TypeVar

Part = TypeVar("Part", bound=Hashable)

SLOW = 0.10
"""A part this far below the median of its equals is slow."""


class Verdict(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    """Jobs run, and somebody should know."""
    FAIL = "fail"
    """Jobs would fail, or their numbers would be wrong."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what was found, and, unless it is fine, what a person can do."""

    name: str
    verdict: Verdict
    finding: str
    remedy: str = ""


def passed(checks: Iterable[Check]) -> bool:
    """Whether none failed; warnings pass."""
    return all(check.verdict is not Verdict.FAIL for check in checks)


def slow_parts(rates: Mapping[Part, float], tolerance: float = SLOW) -> dict[Part, float]:
    """The parts more than `tolerance` below the median of all, with the fraction by which they are below it."""
    if len(rates) < 2:
        return {}
    middle = median(rates.values())
    return {part: 1 - rate / middle for part, rate in rates.items() if rate < middle * (1 - tolerance)}
