"""Taking a host out of work, within the caller's transaction: for one fault of the box, or by its circuit breaker."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from ddqueue.domain.breaker import EndedAttempt, Tripped, judge
from ddqueue.domain.failures import Failure
from ddqueue.domain.states import AttemptOutcome
from ddqueue.storage.events import EventKind, write_event
from ddqueue.storage.statements import statement
from ddqueue.storage.webhooks import tell_quarantine

_LOOK_BACK = 100
"""Attempts the breaker looks at: a row that many attempts that do not count would have to hide was no row."""


def quarantine(connection: Connection, host: str, failure: Failure, reason: str) -> None:
    """The host takes no work until it is released; a host already out keeps its first reason."""
    _shut(connection, host, failure, reason, {})


def apply_breaker(connection: Connection, host: str) -> None:
    """Quarantine the host if its last attempts say that the box is sick; the newest failure's class stands for all."""
    rows = connection.execute(statement("ended_attempts"), {"host": host, "limit": _LOOK_BACK})
    tripped = judge(
        EndedAttempt(
            job_id=row.job_id,
            configuration=row.configuration,
            outcome=AttemptOutcome(row.outcome),
            failure=Failure(row.failure) if row.failure else None,
        )
        for row in rows
    )
    if tripped is not None:
        _shut(connection, host, _newest_class(tripped), tripped.reason, {"breaker": True, "jobs": _jobs(tripped)})


def _shut(connection: Connection, host: str, failure: Failure, reason: str, detail: dict[str, Any]) -> None:
    found = {"host": host, "failure": failure.value, "reason": reason}
    if connection.execute(statement("quarantine_host"), found).first() is not None:
        write_event(connection, EventKind.QUARANTINED, {"failure": failure, "reason": reason, **detail}, host=host)
        tell_quarantine(connection, host)


def _newest_class(tripped: Tripped) -> Failure:
    failure = tripped.attempts[0].failure
    if failure is None:
        raise ValueError("an attempt without a failure class does not count")
    return failure


def _jobs(tripped: Tripped) -> list[int]:
    return [attempt.job_id for attempt in reversed(tripped.attempts)]
