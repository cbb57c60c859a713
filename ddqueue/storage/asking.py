"""One question to the database, that cannot change it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import errors as pg
from sqlalchemy import make_url

from ddqueue.errors import DdqueueError, UsageError
from ddqueue.storage.engine import connect, reaching

READER = "pg_read_all_data"
"""Postgres's own role (since 14) that may see every table and change none."""

_REACHES_OUT = re.compile(r"(\s|;|--[^\n]*(\n|$)|/\*.*?\*/)*(copy|do|call|load)\b", re.IGNORECASE | re.DOTALL)
"""Statements that may act outside of their transaction."""


@dataclass(frozen=True)
class Answer:
    """What a query gave: the columns' names, and rows of as many values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def ask(database_url: str, query: str, timeout_s: float) -> Answer:
    """Run one reading statement.

    Three things keep it from writing: a read-only transaction, which is never committed; a prepared statement, which
    cannot hold a second command that would end that transaction first; and, where the person's role may take it, a role
    that can do nothing but read. Without that a superuser could still write a file of the server, start a program on it
    or end others' sessions, none of which a read-only transaction minds.

    Raises:
        UsageError: the query writes, is more than one statement, has a mistake, or gives no rows.
        DdqueueError: it took longer than `timeout_s`.
        NotReachable: Postgres does not answer.
    """
    if "\0" in query:
        raise UsageError("the query holds a NUL")
    if _REACHES_OUT.match(query):
        raise UsageError("`ddqueue sql` only reads: COPY, DO, CALL and LOAD can do more; write a SELECT")
    sql_engine = connect(database_url, "ddqueue sql", timeout_s)
    try:
        with reaching(make_url(database_url)), sql_engine.connect() as connection:
            driver = connection.connection.driver_connection
            if not isinstance(driver, psycopg.Connection):
                raise TypeError(f"expected a psycopg connection, not {type(driver).__name__}")
            _only_read(driver)
            return _answer(driver, query, timeout_s)
    finally:
        sql_engine.dispose()


def _only_read(driver: psycopg.Connection[Any]) -> None:
    driver.read_only = True
    try:
        driver.execute(f"SET ROLE {READER}")
        driver.commit()
    except (pg.InsufficientPrivilege, pg.UndefinedObject, pg.InvalidParameterValue):
        # An ordinary role, which Postgres lets near neither files nor programs.
        driver.rollback()


def _answer(driver: psycopg.Connection[Any], query: str, timeout_s: float) -> Answer:
    try:
        cursor = driver.execute(query.encode(), prepare=True)
    except (pg.ReadOnlySqlTransaction, pg.InsufficientPrivilege) as error:
        raise UsageError(f"`ddqueue sql` only reads: {_line(error)}") from error
    except pg.QueryCanceled as error:
        raise DdqueueError(f"the query took longer than {timeout_s:g} s; allow more with --timeout") from error
    except psycopg.Error as error:
        if driver.closed:
            raise
        raise UsageError(f"the query failed: {_line(error)}") from error
    if cursor.description is None:
        raise UsageError("the statement gives no rows; `ddqueue sql` is for questions, such as: select * from results")
    return Answer(tuple(column.name for column in cursor.description), tuple(cursor.fetchall()))


def _line(error: psycopg.Error) -> str:
    """Postgres's message in one line, with its hint."""
    message = (error.diag.message_primary or str(error)).strip().splitlines()[0]
    return f"{message} ({error.diag.message_hint})" if error.diag.message_hint else message
