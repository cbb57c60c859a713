"""What a person does to the queue: cancel, retry, pause, resume, hold, release; each one transaction with its event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, func, select, update

from ddqueue.domain.failures import Failure
from ddqueue.domain.states import JobState
from ddqueue.errors import UsageError
from ddqueue.storage import tables
from ddqueue.storage.engine import transaction
from ddqueue.storage.events import EventKind, announce, write_event
from ddqueue.storage.references import Target
from ddqueue.storage.statements import statement
from ddqueue.storage.storable import Cleaner


@dataclass(frozen=True)
class Cancelled:
    """Job ids: ended at once, and asked to stop because they run."""

    ended: tuple[int, ...]
    asked_to_stop: tuple[int, ...]


class PostgresControl:
    """A person's hand on the queue. Every method raises NotReachable when Postgres does not answer."""

    def __init__(self, sql_engine: Engine) -> None:
        self._sql_engine = sql_engine

    def cancel(self, target: Target, box_gone: bool = False) -> Cancelled:
        """End what is queued at once and ask what runs to stop; ended jobs stay as they are. Safe to repeat.

        With `box_gone` a running job whose lease has expired is ended too: nobody is there whom one could ask.
        """
        with transaction(self._sql_engine) as connection:
            abandoned = _abandon(connection, target) if box_gone else ()
            rows = connection.execute(statement("cancel_jobs"), target.parameters()).all()
            ended = tuple(sorted([*abandoned, *(row.id for row in rows if row.state == JobState.CANCELLED)]))
            asked = tuple(sorted(row.id for row in rows if row.state == JobState.RUNNING))
            for job_id in ended:
                write_event(connection, EventKind.CANCELLED, sweep_id=target.sweep_id, job_id=job_id)
            for job_id in asked:
                write_event(connection, EventKind.CANCEL_REQUESTED, sweep_id=target.sweep_id, job_id=job_id)
            announce(connection)
        return Cancelled(ended, asked)

    def retry(self, target: Target, failures: Sequence[Failure] | None = None) -> tuple[int, ...]:
        """Put failed, unsupported, cancelled and pruned jobs back into the queue with all their tries; returns the ids.

        With `failures` only jobs that ended with one of these classes.
        """
        wanted = {
            **target.parameters(),
            "failures": None if failures is None else [failure.value for failure in failures],
        }
        with transaction(self._sql_engine) as connection:
            retried = tuple(sorted(row.id for row in connection.execute(statement("retry_jobs"), wanted)))
            for job_id in retried:
                write_event(connection, EventKind.RETRIED, sweep_id=target.sweep_id, job_id=job_id)
            announce(connection)
        return retried

    def pause(self, sweep_id: int) -> bool:
        """Let no more jobs of the sweep start; what runs goes on. False when it was paused already."""
        return self._set_paused(sweep_id, True)

    def resume(self, sweep_id: int) -> bool:
        """Undo `pause`. False when it was not paused."""
        return self._set_paused(sweep_id, False)

    def hold(self, host: str, reason: str, for_s: float | None = None, now: bool = False) -> int | None:
        """Let no job start on the host for `for_s` seconds, or until it is released; what runs goes on.

        With `now`, what runs is asked to stop, and its job waits again without losing a try. Returns the id of the job
        that runs there, if any. Raises UsageError for an unknown host.
        """
        hosts, jobs = tables.hosts, tables.jobs
        until = None if for_s is None else func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, for_s)
        held = {
            "held_at": func.clock_timestamp(),
            "held_until": until,
            "hold_reason": Cleaner().text(reason, "reason"),
        }
        running = (jobs.c.host == host) & (jobs.c.state == JobState.RUNNING.value)
        with transaction(self._sql_engine) as connection:
            _require_host(connection, host)
            connection.execute(update(hosts).where(hosts.c.name == host).values(**held))
            write_event(connection, EventKind.HELD, {"for_s": for_s, "reason": reason, "now": now}, host=host)
            if not now:
                return connection.execute(select(jobs.c.id).where(running)).scalar_one_or_none()
            asked = (
                update(jobs)
                .where(running)
                .values(yield_requested_at=func.coalesce(jobs.c.yield_requested_at, func.clock_timestamp()))
                .returning(jobs.c.id, jobs.c.sweep_id)
            )
            row = connection.execute(asked).one_or_none()
            if row is not None:
                write_event(connection, EventKind.YIELD_REQUESTED, sweep_id=row.sweep_id, job_id=row.id, host=host)
            return None if row is None else row.id

    def running_job(self, host: str) -> int | None:
        """The id of the job that runs on the host. Raises UsageError for an unknown host."""
        jobs = tables.jobs
        with transaction(self._sql_engine) as connection:
            _require_host(connection, host)
            running = select(jobs.c.id).where(jobs.c.host == host, jobs.c.state == JobState.RUNNING.value)
            return connection.execute(running).scalar_one_or_none()

    def release(self, host: str) -> bool:
        """End the host's quarantine and hold, and let its circuit breaker count anew.

        False when there was neither quarantine nor hold. Raises UsageError for an unknown host.
        """
        hosts = tables.hosts
        nothing = {
            "quarantined_at": None,
            "quarantine_class": None,
            "quarantine_reason": None,
            "held_at": None,
            "held_until": None,
            "hold_reason": None,
        }
        shut = hosts.c.quarantined_at.is_not(None) | hosts.c.held_at.is_not(None)
        with transaction(self._sql_engine) as connection:
            _require_host(connection, host)
            # First, because it waits for an attempt that is just shutting the host: the next statement sees that.
            connection.execute(update(hosts).where(hosts.c.name == host).values(released_at=func.clock_timestamp()))
            opened = connection.execute(update(hosts).where(hosts.c.name == host, shut).values(**nothing)).rowcount
            if opened:
                write_event(connection, EventKind.RELEASED, host=host)
                announce(connection)
        return bool(opened)

    def _set_paused(self, sweep_id: int, paused: bool) -> bool:
        sweeps = tables.sweeps
        other = update(sweeps).where(sweeps.c.id == sweep_id, sweeps.c.paused.is_not(paused)).values(paused=paused)
        with transaction(self._sql_engine) as connection:
            changed = connection.execute(other).rowcount
            if changed:
                write_event(connection, EventKind.PAUSED if paused else EventKind.RESUMED, sweep_id=sweep_id)
                announce(connection)
        return bool(changed)


def _require_host(connection: Connection, host: str) -> None:
    names = connection.execute(select(tables.hosts.c.name).order_by(tables.hosts.c.name)).scalars().all()
    if host not in names:
        known = ", ".join(names) or "none yet: it learns of hosts when a sweep is submitted"
        raise UsageError(f"the database knows no host {host!r}; it knows {known}")


_BOX_GONE = "a person said that its box is gone"


def _abandon(connection: Connection, target: Target) -> tuple[int, ...]:
    """End the running jobs that nobody has been heard of; returns their ids."""
    rows = connection.execute(statement("abandon_jobs"), {**target.parameters(), "why": _BOX_GONE}).all()
    for row in rows:
        write_event(
            connection,
            EventKind.LOST,
            {"why": _BOX_GONE, "state": JobState.CANCELLED},
            sweep_id=row.sweep_id,
            job_id=row.job_id,
            attempt_id=row.attempt_id,
            host=row.host,
        )
    return tuple(row.job_id for row in rows)
