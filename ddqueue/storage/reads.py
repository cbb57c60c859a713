"""Asking the database without changing it: the queries are text, and rows come back as plain mappings.

A command that asks and ends uses `PlainReads`, one bare connection: SQLAlchemy would take several times as long to
import as the queries take. What runs for hours has a pool anyway and uses `PooledReads` of storage/pooled_reads.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, Protocol

import psycopg
from psycopg.rows import dict_row

from ddqueue.storage.address import Address

Row = dict[str, Any]

_PARAMETER = re.compile(r"(?<![:\w]):(\w+)(?!:)")


class Fetch(Protocol):
    """Runs one query within a transaction; its parameters are written `:name`."""

    def __call__(self, query: str, **parameters: Any) -> list[Row]: ...


class Reads(Protocol):
    """Where answers come from."""

    def reading(self, consistent: bool = False) -> AbstractContextManager[Fetch]:
        """One transaction; with `consistent` all its queries see the database of one moment.

        Raises:
            NotReachable: Postgres does not answer.
            UsageError: the database lacks our tables.
        """


class PlainReads:
    """One connection, made when it is first needed; close it."""

    def __init__(self, database_url: str, application_name: str) -> None:
        """Raises UsageError when the URL is not one of Postgres; nothing is sent yet."""
        self._address = Address.parse(database_url)
        self._application_name = application_name
        self._connection: psycopg.Connection[Row] | None = None

    @contextmanager
    def reading(self, consistent: bool = False) -> Iterator[Fetch]:
        """See Reads."""
        try:
            connection = self._opened(consistent)
            with connection.transaction():
                # Only text of this package and values apart from it come here. In binary, numbers and times are taken
                # as they are, and not read from text.
                yield lambda query, **parameters: connection.execute(
                    _psycopgs(query).encode(), parameters, binary=True
                ).fetchall()
        except psycopg.Error as error:
            explained = self._address.explain(error)
            if explained is None:
                raise
            raise explained from error

    def close(self) -> None:
        """End the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _opened(self, consistent: bool) -> psycopg.Connection[Row]:
        if self._connection is None or self._connection.closed:
            arguments = self._address.connection_arguments(self._application_name)
            self._connection = psycopg.connect(autocommit=True, row_factory=dict_row, **arguments)
            self._connection.read_only = True
        self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ if consistent else None
        return self._connection


@cache
def _psycopgs(query: str) -> str:
    """`:name` as psycopg writes it."""
    return _PARAMETER.sub(r"%(\1)s", query.replace("%", "%%"))
