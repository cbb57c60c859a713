"""What the dispatcher asks, on one connection of its own that also holds the leader's lock.

Leadership, choosing and listening share that connection on purpose: when it breaks, Postgres gives the lock to another
dispatcher, and nothing can be chosen any more in the old one's name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy import Connection, Engine, text

from ddqueue import __version__
from ddqueue.domain.queueing import NextJob
from ddqueue.storage.compatibility import require_schema
from ddqueue.storage.engine import CHANNEL, reaching
from ddqueue.storage.statements import statement

LEADER_LOCK = 0x6464_7175
"""The key of the advisory lock, the same in every dispatcher: the ASCII of "ddqu"."""

ASK_AGAIN_S = 1.0

SEEN_EVERY_S = 5.0
"""How often a dispatcher tells the database that it is alive."""


class PostgresDispatchStore:
    """Implements ports.DispatchStore.

    Not for two threads. When `next_jobs` or `wait` raises NotReachable, leadership is gone: leave the block of `lead`
    and enter it again, which connects anew.
    """

    def __init__(
        self, sql_engine: Engine, should_end: Callable[[], bool] = lambda: False, name: str | None = None
    ) -> None:
        """`should_end` ends the wait of `lead` in a process that another one leads. Under `name`, if there is one, the
        database hears that this dispatcher is alive, from the very loop that dispatches or stands by; that loop raises
        SchemaRefused once the tables have left this version behind."""
        self._sql_engine = sql_engine
        self._should_end = should_end
        self._name = name
        self._seen_s = -SEEN_EVERY_S
        self._leading: Connection | None = None

    @contextmanager
    def lead(self) -> Iterator[None]:
        """Connects, blocks until this process is the leader, and leads until the block ends.

        Told to end while it waits, it enters the block without leading: `next_jobs` and `wait` are not allowed then.

        Raises:
            NotReachable: Postgres does not answer.
        """
        with reaching(self._sql_engine.url):
            connection = self._sql_engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            with reaching(self._sql_engine.url):
                # Listening first: what changes between becoming the leader and the first look is then not missed.
                connection.execute(text(f"LISTEN {CHANNEL}"))
                while not (leads := _try_lock(connection)) and not self._should_end():
                    self._tell_seen(connection)
                    time.sleep(ASK_AGAIN_S)
            self._leading = connection if leads else None
            yield
        finally:
            self._leading = None
            # Thrown away rather than given back to the pool: its end is what frees the lock and the LISTEN.
            connection.invalidate()
            connection.close()

    def next_jobs(self, wake_again_after_s: float) -> list[NextJob]:
        """At most one job for each idle host that has not been woken within `wake_again_after_s`; marks them woken.

        Within a sweep by priority and position; sweeps by priority, then the job's priority, then age. A host
        whose running job has let its lease expire counts as idle, and that job is named. Raises NotReachable.
        """
        with reaching(self._sql_engine.url):
            self._tell_seen(self._leader())
            rows = self._leader().execute(statement("next_jobs"), {"wake_again_after_s": wake_again_after_s}).all()
        return [
            NextJob(
                job_id=row.job_id,
                host=row.host,
                sweep=f"{row.name}@{row.revision}",
                model=row.model,
                cell_label=row.label,
                parallel=row.parallel,
            )
            for row in sorted(rows, key=lambda row: str(row.host))
        ]

    def wait(self, timeout_s: float) -> None:
        """Return as soon as a change was announced, or after `timeout_s`. Raises NotReachable."""
        with reaching(self._sql_engine.url):
            driver = self._leader().connection.driver_connection
            if not isinstance(driver, psycopg.Connection):
                raise TypeError(f"expected a psycopg connection, not {type(driver).__name__}")
            for _ in driver.notifies(timeout=timeout_s, stop_after=1):
                pass

    def _tell_seen(self, connection: Connection) -> None:
        if self._name is None or time.monotonic() - self._seen_s < SEEN_EVERY_S:
            return
        require_schema(connection)
        connection.execute(statement("introduce_dispatcher"), {"name": self._name, "version": __version__})
        self._seen_s = time.monotonic()

    def _leader(self) -> Connection:
        if self._leading is None:
            raise RuntimeError("only within `with store.lead():`")
        return self._leading


def _try_lock(connection: Connection) -> bool:
    return bool(connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": LEADER_LOCK}).scalar_one())
