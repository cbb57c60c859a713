"""What Postgres knows at this moment, asked from the control host, which no cut separates from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg

from ddqueue.storage.engine import CHANNEL

PATIENCE_S = 180.0
"""How long a test waits before it calls something stuck; no assertion depends on how long anything takes."""


class Ledger:
    """One connection of its own. Not while Postgres is down."""

    def __init__(self, database_url: str) -> None:
        self._connection = psycopg.connect(database_url, autocommit=True, connect_timeout=5)

    def close(self) -> None:
        self._connection.close()

    def lease(self, host: str) -> datetime | None:
        """Until when the host's running job is leased; None when none runs."""
        rows = self._rows("SELECT lease_expires_at FROM jobs WHERE host = %s AND state = 'running'", host)
        return rows[0][0] if rows else None

    def lease_has_expired(self, host: str) -> bool:
        rows = self._rows("SELECT lease_expires_at < now() FROM jobs WHERE host = %s AND state = 'running'", host)
        return bool(rows and rows[0][0])

    def stored(self, attempt_id: int) -> int:
        """How many of the attempt's own measurements are stored."""
        rows = self._rows(
            "SELECT count(*) FROM measurements WHERE attempt_id = %s AND carried_from IS NULL", attempt_id
        )
        return int(rows[0][0])

    def sessions(self, address: str) -> int:
        """How many connections Postgres believes to have with the box."""
        return int(self._rows("SELECT count(*) FROM pg_stat_activity WHERE client_addr = %s", address)[0][0])

    def announce(self) -> None:
        """What every change of the queue does: wake the dispatcher."""
        self._connection.execute("SELECT pg_notify(%s, '')", (CHANNEL,))

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(query, values).fetchall()


@contextmanager
def open_ledger(database_url: str) -> Iterator[Ledger]:
    ledger = Ledger(database_url)
    try:
        yield ledger
    finally:
        ledger.close()


def wait_until(condition: Callable[[], bool], problem: str, limit_s: float = PATIENCE_S) -> None:
    """Ask ten times a second; fails the test with `problem` at the limit."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(0.1)
