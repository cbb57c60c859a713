"""Judges a recorded history: which promises of ddqueue it breaks. Pure: it sees nothing but the history."""

from __future__ import annotations

from collections.abc import Iterator

from .check_clients import check_clients
from .check_fences import check_fences
from .check_hosts import check_hosts
from .check_jobs import check_jobs, check_journals
from .history import History, LeftOver
from .violation import Promise, Violation


def check(history: History) -> list[Violation]:
    """Every broken promise; none is what a run must show."""
    return [
        *check_hosts(history.watched, history.tables),
        *check_fences(history.tables, history.stale_writes),
        *check_jobs(history.tables, history.repeats),
        *check_journals(history.watched.journalled, history.tables),
        *check_clients(history.commands, history.tables, history.strikes),
        *_check_left(history.left),
    ]


def _check_left(left: LeftOver) -> Iterator[Violation]:
    for promise, found in (
        (Promise.SERVERS_END, left.servers),
        (Promise.GPUS_IDLE, left.gpus),
        (Promise.NO_STRAYS, (*left.strays, *left.unwilling)),
    ):
        for text in found:
            yield Violation(promise, text)
