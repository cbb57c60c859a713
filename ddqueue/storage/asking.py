"""One question to the database, that cannot change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import errors as pg
from sqlalchemy import make_url

from ddqueue.errors import DdqueueError, UsageError
from ddqueue.storage.engine import connect, reaching


@dataclass(frozen=True)
class Answer:
    """What a query gave: the columns' names, and rows of as many values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def ask(database_url: str, query: str, timeout_s: float) -> Answer:
    """Run one reading statement.

    Two things keep it from writing: a read-only transaction, and a prepared statement, which cannot hold a second
    command that would end that transaction first.

    Raises:
        UsageError: the query writes, is more than one statement, has a mistake, or gives no rows.
        DdqueueError: it took longer than `timeout_s`.
        NotReachable: Postgres does not answer.
    """
    if "\0" in query:
        raise UsageError("the query holds a NUL")
    sql_engine = connect(database_url, "ddqueue sql", timeout_s)
    try:
        with reaching(make_url(database_url)), sql_engine.connect() as connection:
            driver = connection.connection.driver_connection
            if not isinstance(driver, psycopg.Connection):
                raise TypeError(f"expected a psycopg connection, not {type(driver).__name__}")
            driver.read_only = True
            return _answer(driver, query, timeout_s)
    finally:
        sql_engine.dispose()


def _answer(driver: psycopg.Connection[Any], query: str, timeout_s: float) -> Answer:
    try:
        cursor = driver.execute(query.encode(), prepare=True)
    except (pg.ReadOnlySqlTransaction, pg.InsufficientPrivilege) as error:
        raise UsageError(f"`ddqueue sql` only reads: {_line(error)}") from error
    except pg.QueryCanceled as error:
        raise DdqueueError(f"the query took longer than {timeout_s:g} s; allow more with --timeout") from error
    except (pg.ProgrammingError, pg.DataError, pg.NotSupportedError) as error:
        raise UsageError(f"the query failed: {_line(error)}") from error
    if cursor.description is None:
        raise UsageError("the statement gives no rows; `ddqueue sql` is for questions, such as: select * from results")
    return Answer(tuple(column.name for column in cursor.description), tuple(cursor.fetchall()))


def _line(error: psycopg.Error) -> str:
    """Postgres's message in one line, with its hint."""
    message = (error.diag.message_primary or str(error)).strip().splitlines()[0]
    return f"{message} ({error.diag.message_hint})" if error.diag.message_hint else message
