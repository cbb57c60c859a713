"""The circuit breaker of a host: after several suspicious failures in a row it takes no more jobs until released.

A sick box fails every job quickly, so that left alone it eats a night's queue. A configuration that cannot work fails
on any box, so that failures alone prove nothing: what counts is *different* configurations that failed, one after the
other, in ways a sick box would make them fail, with no success between.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ddqueue.domain.failures import POLICIES, Failure, Scope
from ddqueue.domain.states import AttemptOutcome

LIMIT = 3
"""Suspicious failures in a row that shut a host: two may come together by chance in a night, three hardly."""


class Suspicion(StrEnum):
    """What a failure says about its host."""

    HOST = "host"
    """The box itself: every one counts."""
    SHARED = "shared"
    """The box or the configuration, nobody can tell: counts once a configuration, however often that is tried."""
    NONE = "none"
    """Not the box: neither counts nor clears."""


_NOT_THE_BOX = {
    Failure.PORT_BUSY,  # the next attempt takes another port
    Failure.LEASE_LOST,  # somebody ended the attempt's process or the machine: a deploy, a reboot, a test
}


def _suspicion(failure: Failure) -> Suspicion:
    scope = POLICIES[failure].scope
    if scope is Scope.HOST:
        return Suspicion.HOST
    return Suspicion.SHARED if scope is Scope.TRANSIENT and failure not in _NOT_THE_BOX else Suspicion.NONE


SUSPICIONS: dict[Failure, Suspicion] = {failure: _suspicion(failure) for failure in Failure}
"""A failure that may pass by itself (SERVER_CRASHED, NCCL_HANG, SERVER_STALLED, ...) is one that a sick box makes; one
that is sure to come again with the configuration is not."""


@dataclass(frozen=True)
class EndedAttempt:
    """How one attempt on a host ended; `configuration` is its cell's hash."""

    job_id: int
    configuration: str
    outcome: AttemptOutcome
    failure: Failure | None = None


@dataclass(frozen=True)
class Tripped:
    """The breaker is open: the attempts that opened it, newest first, at least LIMIT."""

    attempts: tuple[EndedAttempt, ...]

    @property
    def reason(self) -> str:
        """One line for whoever looks at the host."""
        listed = ", ".join(f"job {ended.job_id} {ended.failure}" for ended in reversed(self.attempts))
        return (
            f"circuit breaker: {len(self.attempts)} suspicious failures in a row, nothing succeeded between: {listed}"
        )


def judge(ended: Iterable[EndedAttempt]) -> Tripped | None:
    """Decide from a host's attempts, newest first, since it was last released; None = it may go on.

    A success ends the row; an attempt that was cancelled, lost, or failed for its configuration is passed over.
    """
    counted: list[EndedAttempt] = []
    seen: set[str] = set()
    for attempt in ended:
        if attempt.outcome is AttemptOutcome.SUCCEEDED:
            break
        if attempt.outcome is not AttemptOutcome.FAILED or attempt.failure is None:
            continue
        suspicion = SUSPICIONS[attempt.failure]
        if suspicion is Suspicion.HOST or (suspicion is Suspicion.SHARED and attempt.configuration not in seen):
            counted.append(attempt)
        if suspicion is Suspicion.SHARED:
            seen.add(attempt.configuration)
        if len(counted) == LIMIT:
            return Tripped(tuple(counted))
    return None
