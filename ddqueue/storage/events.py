"""The log of what happened, written in the transaction that makes it so, and the call that wakes the dispatcher."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, insert, text

from ddqueue.storage import tables
from ddqueue.storage.engine import CHANNEL
from ddqueue.storage.storable import Cleaner


class EventKind(StrEnum):
    """What can happen."""

    SUBMITTED = "submitted"
    IMPORTED = "imported"
    """Results measured by hand were brought in from a file."""
    CLAIMED = "claimed"
    FINISHED = "finished"
    LOST = "lost"
    """An attempt vanished; its job went back to the queue (or was cancelled, if a person had asked for that)."""
    CLEANED = "cleaned"
    """Something stored held NUL, a lone surrogate or a number that is not finite; the detail names the fields."""
    QUARANTINED = "quarantined"
    RELEASED = "released"
    HELD = "held"
    YIELD_REQUESTED = "yield_requested"
    """A person holds the host now: the running attempt is asked to stop, and its job will wait again."""
    CANCELLED = "cancelled"
    CANCEL_REQUESTED = "cancel_requested"
    RETRIED = "retried"
    PAUSED = "paused"
    RESUMED = "resumed"
    PRUNED = "pruned"
    """A queued visit was given up together with an earlier one of the same configuration."""


def write_event(
    connection: Connection,
    kind: EventKind,
    detail: Mapping[str, Any] | None = None,
    *,
    sweep_id: int | None = None,
    job_id: int | None = None,
    attempt_id: int | None = None,
    host: str | None = None,
) -> None:
    """Add one row; `detail` is cleaned, so that writing an event never fails for what it says."""
    connection.execute(
        insert(tables.events).values(
            sweep_id=sweep_id,
            job_id=job_id,
            attempt_id=attempt_id,
            host=host,
            kind=kind.value,
            detail=Cleaner().json(detail or {}, "detail"),
        )
    )


def announce(connection: Connection) -> None:
    """Wake the dispatcher when, and only when, this transaction commits."""
    connection.execute(text("SELECT pg_notify(:channel, '')"), {"channel": CHANNEL})
