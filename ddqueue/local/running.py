"""Where the embedded servers are, if they run: what every command asks that was told of no other ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ddqueue.local.home import Home
from ddqueue.local.record import read_record


@dataclass(frozen=True)
class LocalServers:
    """Where both servers are, passwords included: SQLAlchemy's and redis-py's kind of URL."""

    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)


def running(home: Path) -> LocalServers | None:
    """The servers of `home` if both run now; None when they do not, or not yet.

    Raises:
        UsageError: they are another user's.
    """
    record = read_record(Home(home.absolute()).record)
    if record is None or not record.is_alive():
        return None
    return LocalServers(record.database_url, record.redis_url)
