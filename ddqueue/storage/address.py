"""Where a Postgres is, how patient both ends of a connection are, and what its errors mean to a person.

Without SQLAlchemy, which takes longer to import than most questions take to answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

import psycopg
from psycopg import errors as pg

from ddqueue.errors import DdqueueError, NotReachable, UsageError

LOCK_TIMEOUT_S = 10.0
STATEMENT_TIMEOUT_S = 30.0

# A cut cable must be noticed within seconds at both ends: without tcp_user_timeout a query just sent waits for the
# whole cut, and without the server's keepalives a dead client's locks live for two hours.
_CLIENT_PATIENCE: Mapping[str, int] = {
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

_URL = re.compile(
    r"(?P<scheme>[\w+]+)://"
    r"(?:(?P<user>[^:/@]*)(?::(?P<password>[^@]*))?@)?"
    r"(?:\[(?P<ipv6>[^/?\]]+)\]|(?P<host>[^/:?@]+))?"
    r"(?::(?P<port>[0-9]*))?"
    r"(?:/(?P<database>[^?]*))?"
    r"(?:\?(?P<options>.*))?"
)


@dataclass(frozen=True)
class Address:
    """A database and who asks it; what is None is libpq's own default."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    host: str | None = None
    port: int | None = None
    database: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read `postgresql://user:password@host:port/name?option=value`; user and password are percent-encoded.

        Raises:
            UsageError: it is no URL of Postgres. The text itself is not repeated, for it may hold the password.
        """
        found = _URL.fullmatch(url)
        if found is None:
            raise UsageError("the database URL cannot be read; write postgresql://USER:PASSWORD@HOST:PORT/NAME")
        scheme = found["scheme"]
        if scheme.partition("+")[0] not in ("postgresql", "postgres"):
            raise UsageError(f"the database URL begins with {scheme}://; ddqueue needs postgresql://")
        user, password = found["user"], found["password"]
        return cls(
            user=unquote(user) if user else None,
            password=None if password is None else unquote(password),
            host=found["ipv6"] or found["host"],
            port=int(found["port"]) if found["port"] else None,
            database=unquote(found["database"]) if found["database"] else None,
            options=dict(parse_qsl(found["options"] or "")),
        )

    @property
    def place(self) -> str:
        """`host:port/name`, for a message."""
        host = self.host or self.options.get("host") or "the local socket"
        return f"{host}:{self.port or 5432}/{self.database or ''}"

    def connection_arguments(
        self, application_name: str, statement_timeout_s: float = STATEMENT_TIMEOUT_S
    ) -> dict[str, Any]:
        """What psycopg.connect takes."""
        named = {
            "user": self.user,
            "password": self.password,
            "host": self.host,
            "port": self.port,
            "dbname": self.database,
        }
        known = {name: value for name, value in named.items() if value is not None}
        return {**known, **self.options, **session_arguments(application_name, statement_timeout_s)}

    def explain(self, error: psycopg.Error) -> DdqueueError | None:
        """What a person reads instead of `error`; None for a mistake of ours."""
        if isinstance(error, (pg.UndefinedTable, pg.UndefinedColumn, pg.UndefinedFunction)):
            return UsageError(
                f"the database at {self.place} has not this version's tables ({self._first_line(error)}): "
                "run `ddqueue db upgrade`"
            )
        if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
            return NotReachable(f"Postgres at {self.place} did not answer: {self._first_line(error)}")
        return None

    def _first_line(self, error: psycopg.Error) -> str:
        lines = str(error).strip().splitlines()
        line = lines[0].strip() if lines else type(error).__name__
        return line.replace(self.password, "***") if self.password else line


def session_arguments(application_name: str, statement_timeout_s: float) -> dict[str, Any]:
    """How long each end of a connection waits for the other, as arguments of psycopg.connect."""
    session = {
        **_SERVER_PATIENCE,
        "statement_timeout": f"{round(statement_timeout_s * 1000)}ms",
        "lock_timeout": f"{round(LOCK_TIMEOUT_S * 1000)}ms",
    }
    return {
        **_CLIENT_PATIENCE,
        "application_name": application_name,
        "options": " ".join(f"-c {name}={value}" for name, value in session.items()),
    }
