"""Asking the database over a pool of SQLAlchemy's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, text

from ddqueue.storage.engine import transaction
from ddqueue.storage.reads import Fetch


class PooledReads:
    """See storage/reads.py; each transaction borrows a connection of the pool."""

    def __init__(self, sql_engine: Engine) -> None:
        self._sql_engine = sql_engine

    @contextmanager
    def reading(self, consistent: bool = False) -> Iterator[Fetch]:
        """See Reads."""
        with transaction(self._sql_engine) as connection:
            isolation = " ISOLATION LEVEL REPEATABLE READ" if consistent else ""
            connection.execute(text(f"SET TRANSACTION{isolation} READ ONLY"))
            yield fetch_on(connection)


def fetch_on(connection: Connection) -> Fetch:
    """Queries within a transaction that is already open."""
    return lambda query, **parameters: [dict(row) for row in connection.execute(text(query), parameters).mappings()]
