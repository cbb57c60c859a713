"""The queue's end of a deployment: Postgres and the broker, as this side reaches them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import datetime

from celery import Celery
from kombu.exceptions import OperationalError

from ddqueue import bootstrap
from ddqueue.errors import NotReachable
from ddqueue.storage.deploying import Hold, PostgresDeploying, Seen

_ANSWER_LIMIT_S = 2.0


class ControlSide:
    """Safe for several threads. Every method raises NotReachable when its server does not answer."""

    def __init__(self, database: PostgresDeploying, celery: Celery) -> None:
        self._database = database
        self._celery = celery

    def now(self) -> datetime:
        """By the database's clock."""
        return self._database.now()

    def hold(self, host: str, reason: str, for_s: float) -> Hold:
        return self._database.hold(host, reason, for_s)

    def let_go(self, host: str, reason: str) -> bool:
        return self._database.let_go(host, reason)

    def running_job(self, host: str) -> int | None:
        return self._database.running_job(host)

    def worker_seen(self, host: str) -> Seen:
        return self._database.worker_seen(host)

    def dispatcher_seen(self, machine: str) -> Seen:
        return self._database.dispatcher_seen(machine)

    def answers(self, host: str) -> bool:
        """Whether a worker of that host answers over the broker now."""
        name = f"gpu@{host}"
        with self._celery.connection_for_write() as connection:
            try:
                replies = self._celery.control.ping([name], timeout=_ANSWER_LIMIT_S, connection=connection)
            except (OSError, OperationalError, *connection.connection_errors) as error:
                raise NotReachable(f"the broker did not answer this side: {error}") from error
        return any(name in reply for reply in replies or ())


@contextlib.contextmanager
def control_side(check: bool = True) -> Iterator[ControlSide]:
    """On the servers that this side's settings name; with `check` the database must answer now.

    Raises:
        NotReachable: it does not.
        SchemaRefused: it has not this version's tables, and a worker of this version would not start.
    """
    engine = bootstrap.sql_engine("ddqueue deploy")
    try:
        if check:
            bootstrap.check_schema()
        yield ControlSide(PostgresDeploying(engine), bootstrap.celery_app())
    finally:
        engine.dispose()
