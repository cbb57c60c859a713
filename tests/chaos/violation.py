"""What ddqueue promises under faults, and how a broken promise is named."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Promise(StrEnum):
    """The invariants."""

    ONE_OWNER = "one attempt at a time owns a host"
    ONE_SERVER = "no server lives beside another attempt's on one host"
    LOCK_KEPT = "a server holds its host's lock as long as it lives"
    FENCED = "no write with a stale fence is accepted"
    FINAL_ONCE = "each job ends in exactly one final state"
    ACCEPTED_ONCE = "a job that succeeded has exactly one accepted attempt, with all its results; others have none"
    MEASURED_STORED = "what an attempt's journal held is in the tables"
    NOTHING_LOST = "what was acknowledged to a client is so"
    PLAIN_WORDS = "a client gets an answer, or one line that says what could not be reached"
    SERVERS_END = "every server process ends"
    GPUS_IDLE = "the GPUs are idle at the end"
    NO_STRAYS = "nothing is left when workers and dispatcher have ended, and they end when told to"


@dataclass(frozen=True)
class Violation:
    """One broken promise, with what shows it."""

    promise: Promise
    text: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.text}"
