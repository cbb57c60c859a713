"""Pools of connections to Postgres, and the one place where SQLAlchemy's errors become ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ddqueue.errors import NotReachable
from ddqueue.storage.address import STATEMENT_TIMEOUT_S, Address, session_arguments

CHANNEL = "ddqueue"
"""The NOTIFY channel on which every change that may let a job start is announced."""


def connect(database_url: str, application_name: str, statement_timeout_s: float = STATEMENT_TIMEOUT_S) -> Engine:
    """A small pool for `postgresql://user:password@host:port/name`; nothing is sent until it is used.

    Raises:
        UsageError: the URL is not one of Postgres.
    """
    return create_engine(
        _driver_url(Address.parse(database_url)),
        pool_size=2,
        max_overflow=4,
        pool_timeout=5,
        pool_pre_ping=True,
        pool_recycle=600,
        hide_parameters=True,
        connect_args=session_arguments(application_name, statement_timeout_s),
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
        raise NotReachable(f"Postgres at {_address(url).place}: every connection of this process is busy") from error
    except (DBAPIError, psycopg.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        explained = _address(url).explain(cause) if isinstance(cause, psycopg.Error) else None
        if explained is None:
            raise
        raise explained from error


def _driver_url(address: Address) -> URL:
    return URL.create(
        "postgresql+psycopg",
        username=address.user,
        password=address.password,
        host=address.host,
        port=address.port,
        database=address.database,
        query=dict(address.options),
    )


def _address(url: URL) -> Address:
    options = {name: value for name, value in url.query.items() if isinstance(value, str)}
    password = None if url.password is None else str(url.password)
    return Address(url.username, password, url.host, url.port, url.database, options)
