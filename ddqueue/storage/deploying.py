"""What a deployment needs of the queue: a host that takes no job for a while, and what is known of its worker."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any

from sqlalchemy import Engine, Select, func, or_, select, update

from ddqueue.domain.states import JobState
from ddqueue.storage import tables
from ddqueue.storage.engine import transaction
from ddqueue.storage.events import EventKind, announce, write_event


class Hold(Enum):
    """Who keeps the host free."""

    OURS = auto()
    A_PERSONS = auto()
    """It was there before, and stays as it is."""
    UNKNOWN_HOST = auto()
    """The database has never heard of the host, so nothing can run there."""


@dataclass(frozen=True)
class Seen:
    """What a program last said of itself; nothing in it, if nobody has heard of it."""

    version: str | None
    at: datetime | None


class PostgresDeploying:
    """Every method raises NotReachable when Postgres does not answer."""

    def __init__(self, sql_engine: Engine) -> None:
        self._sql_engine = sql_engine

    def now(self) -> datetime:
        """By the database's clock, as everything that it stamps."""
        with transaction(self._sql_engine) as connection:
            moment: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
            return moment

    def hold(self, host: str, reason: str, for_s: float) -> Hold:
        """Let no job start there for `for_s` seconds, or that much longer; `reason` is how the hold is known again.

        It ends by itself, so that a deployment that dies leaves no host shut.
        """
        hosts = tables.hosts
        now = func.clock_timestamp()
        free = or_(hosts.c.held_at.is_(None), hosts.c.held_until <= now)
        ours = hosts.c.hold_reason == reason
        until = now + func.make_interval(0, 0, 0, 0, 0, 0, for_s)
        with transaction(self._sql_engine) as connection:
            here = hosts.c.name == host
            renewed = update(hosts).where(here, ours, ~free).values(held_until=until)
            if connection.execute(renewed).rowcount:
                return Hold.OURS
            taken = update(hosts).where(here, free).values(held_at=now, held_until=until, hold_reason=reason)
            if connection.execute(taken).rowcount:
                write_event(connection, EventKind.HELD, {"for_s": for_s, "reason": reason, "now": False}, host=host)
                return Hold.OURS
            known = connection.execute(select(hosts.c.name).where(here)).scalar_one_or_none()
            return Hold.UNKNOWN_HOST if known is None else Hold.A_PERSONS

    def let_go(self, host: str, reason: str) -> bool:
        """End exactly that hold; a person's, and a quarantine, stay. False when there was none."""
        hosts = tables.hosts
        ended = (
            update(hosts)
            .where(hosts.c.name == host, hosts.c.hold_reason == reason)
            .values(held_at=None, held_until=None, hold_reason=None)
        )
        with transaction(self._sql_engine) as connection:
            if not connection.execute(ended).rowcount:
                return False
            write_event(connection, EventKind.RELEASED, {"reason": reason}, host=host)
            announce(connection)
            return True

    def running_job(self, host: str) -> int | None:
        """The id of the job that runs there; None when none does, also for a host nobody has heard of."""
        jobs = tables.jobs
        running = select(jobs.c.id).where(jobs.c.host == host, jobs.c.state == JobState.RUNNING.value)
        with transaction(self._sql_engine) as connection:
            found: int | None = connection.execute(running).scalar_one_or_none()
            return found

    def worker_seen(self, host: str) -> Seen:
        """The worker of the host."""
        hosts = tables.hosts
        return self._seen(select(hosts.c.worker_version, hosts.c.worker_seen_at).where(hosts.c.name == host))

    def dispatcher_seen(self, machine: str) -> Seen:
        """The dispatcher on the machine of that name."""
        known = tables.dispatchers
        return self._seen(select(known.c.version, known.c.seen_at).where(known.c.name == machine))

    def _seen(self, said: Select[Any]) -> Seen:
        with transaction(self._sql_engine) as connection:
            row = connection.execute(said).one_or_none()
            return Seen(None, None) if row is None else Seen(*row)
