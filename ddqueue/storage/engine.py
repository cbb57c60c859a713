"""Connections to Postgres, and the one place where its errors become ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as pg
from sqlalchemy import Connection, Engine, create_engine, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ddqueue.errors import NotReachable, UsageError

CHANNEL = "ddqueue"
"""The NOTIFY channel on which every change that may let a job start is announced."""

LOCK_TIMEOUT_S = 10.0
STATEMENT_TIMEOUT_S = 30.0

# A cut cable must be noticed within seconds at both ends: without tcp_user_timeout a query just sent waits for the
# whole cut, and without the server's keepalives a dead client's locks live for two hours.
_CLIENT_PATIENCE: dict[str, int] = {
    "connect_timeout": 2,
    "tcp_user_timeout": 4000,
    "keepalives": 1,
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "keepalives_count": 3,
}
_SERVER_PATIENCE = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    # Keepalives rest while sent bytes wait for an answer: a NOTIFY to a dispatcher that was cut off would keep its dead
    # session, and with it the leader's lock, until long after the heal.
    "tcp_user_timeout": "6s",
    "idle_in_transaction_session_timeout": "60s",
}


def connect(database_url: str, application_name: str, statement_timeout_s: float = STATEMENT_TIMEOUT_S) -> Engine:
    """A small pool for `postgresql://user:password@host:port/name`; nothing is sent until it is used.

    Raises:
        UsageError: the URL is not one of Postgres.
    """
    session = {
        **_SERVER_PATIENCE,
        "statement_timeout": f"{round(statement_timeout_s * 1000)}ms",
        "lock_timeout": f"{round(LOCK_TIMEOUT_S * 1000)}ms",
    }
    return create_engine(
        _driver_url(database_url),
        pool_size=2,
        max_overflow=4,
        pool_timeout=5,
        pool_pre_ping=True,
        pool_recycle=600,
        hide_parameters=True,
        connect_args={
            **_CLIENT_PATIENCE,
            "application_name": application_name,
            "options": " ".join(f"-c {name}={value}" for name, value in session.items()),
        },
    )


@contextmanager
def transaction(sql_engine: Engine) -> Iterator[Connection]:
    """One transaction: committed at the end of the block, rolled back by an exception.

    Raises:
        NotReachable: Postgres did not answer, or gave up on a lock or a statement; nothing was half-done.
        UsageError: the database lacks our tables.
    """
    with reaching(sql_engine.url), sql_engine.begin() as connection:
        yield connection


@contextmanager
def reaching(url: URL) -> Iterator[None]:
    """Turn what psycopg and SQLAlchemy raise within the block into NotReachable or UsageError, in one line each."""
    try:
        yield
    except PoolTimeout as error:
        raise NotReachable(f"Postgres at {_place(url)}: every connection of this process is busy") from error
    except (DBAPIError, psycopg.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, (pg.UndefinedTable, pg.UndefinedColumn, pg.UndefinedFunction)):
            raise UsageError(
                f"the database at {_place(url)} has not this version's tables ({_first_line(cause, url)}): "
                "run `ddqueue db upgrade`"
            ) from error
        if isinstance(cause, (psycopg.OperationalError, psycopg.InterfaceError)):
            raise NotReachable(f"Postgres at {_place(url)} did not answer: {_first_line(cause, url)}") from error
        raise


def _driver_url(database_url: str) -> URL:
    try:
        url = make_url(database_url)
    except (ArgumentError, ValueError):
        # The text itself may hold the password, so that it is not repeated here.
        raise UsageError("the database URL cannot be read; write postgresql://USER:PASSWORD@HOST:PORT/NAME") from None
    if url.get_backend_name() not in ("postgresql", "postgres"):
        raise UsageError(f"the database URL begins with {url.drivername}://; ddqueue needs postgresql://")
    return url.set(drivername="postgresql+psycopg")


def _place(url: URL) -> str:
    host = url.host or url.query.get("host") or "the local socket"
    return f"{host}:{url.port or 5432}/{url.database or ''}"


def _first_line(error: BaseException, url: URL) -> str:
    lines = str(error).strip().splitlines()
    line = lines[0].strip() if lines else type(error).__name__
    return line.replace(str(url.password), "***") if url.password else line
