"""Whether any write got past the fence: the probe's, and, by the commit time of every row, anybody's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .history import StaleWrite, Tables
from .violation import Promise, Violation

REFUSED = frozenset({"StaleFence", "lost"})
"""How a stale write must be answered; a heartbeat says `lost` instead of raising."""


def check_fences(tables: Tables, stale_writes: Sequence[StaleWrite]) -> Iterator[Violation]:
    for write in stale_writes:
        if write.answer not in REFUSED:
            text = f"{write.what} with the fence of attempt {write.attempt_id}, which had ended: {write.answer}"
            yield Violation(Promise.FENCED, text)
    yield from _check_commits(tables)


def _check_commits(tables: Tables) -> Iterator[Violation]:
    """An attempt's fence is good from the commit of its claim to the commit of its end, and everything that the attempt
    wrote was committed between the two. No clock of a worker is in this: Postgres keeps the times."""
    began = {row["attempt_id"]: row["committed_at"] for row in tables.events if row["kind"] == "claimed"}
    ended = {row["attempt_id"]: row["committed_at"] for row in tables.events if row["kind"] in ("finished", "lost")}
    for row in tables.writes:
        attempt_id, at = row["attempt_id"], row["committed_at"]
        if attempt_id in ended and at > ended[attempt_id]:
            text = f"a row of {row['table']} for attempt {attempt_id} {at - ended[attempt_id]:.3f} s after its end"
            yield Violation(Promise.FENCED, text)
        if attempt_id in began and at < began[attempt_id]:
            text = f"a row of {row['table']} for attempt {attempt_id} before its claim"
            yield Violation(Promise.FENCED, text)
