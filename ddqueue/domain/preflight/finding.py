"""What a check before the launch has to say."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ddqueue.domain.failures import Failure


class Severity(StrEnum):
    """What a finding means for the attempt."""

    ERROR = "error"
    """The attempt would end with the finding's failure; nothing is started."""
    WARNING = "warning"
    """It runs, and somebody should know."""
    NOTE = "note"
    """Something that could not be checked here."""


@dataclass(frozen=True)
class Finding:
    """One thing found. `failure` is the class an ERROR ends the attempt with, None for the others."""

    severity: Severity
    text: str
    failure: Failure | None = None


def refused(failure: Failure, text: str) -> Finding:
    """An error: the attempt would end with `failure`."""
    return Finding(Severity.ERROR, text, failure)


def doubtful(text: str) -> Finding:
    """A warning."""
    return Finding(Severity.WARNING, text)


def unchecked(text: str) -> Finding:
    """A note."""
    return Finding(Severity.NOTE, text)
