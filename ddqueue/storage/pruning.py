"""Giving up what is clearly slower everywhere: for whom, and what goes with it."""

from __future__ import annotations

from sqlalchemy import Connection

from ddqueue.domain.dominance import Rival
from ddqueue.domain.sweep import Point
from ddqueue.storage.entries import Term
from ddqueue.storage.events import EventKind, write_event
from ddqueue.storage.statements import statement


def rivals(connection: Connection, job_id: int) -> list[Rival]:
    """The cells for which the job may be given up, in the order of the sweep's file."""
    found: dict[int, tuple[str, dict[Point, tuple[float, ...]]]] = {}
    for row in connection.execute(statement("rivals"), {"job_id": job_id}):
        point = Point(row.concurrency, row.context_tokens, row.output_tokens_asked)
        found.setdefault(row.job_id, (row.label, {}))[1][point] = tuple(row.values_tok_s)
    return [Rival(number, label, throughputs) for number, (label, throughputs) in found.items()]


def prune_later_visits(connection: Connection, term: Term, evidence: str | None) -> None:
    """Give up the queued visits of the configuration too, each with an event that names the job that led to it."""
    gone = {"job_id": term.job_id, "evidence": evidence}
    for row in connection.execute(statement("prune_visits"), gone).all():
        detail = {"with_job": term.job_id, "why": evidence}
        write_event(connection, EventKind.PRUNED, detail, sweep_id=term.sweep_id, job_id=row.id, host=term.host)
