"""A claim is one statement: what it writes beside the job's row, and what a single view of the database could miss."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import make_url, text
from storage_world import RTX, RUNNER, World, a_sweep

from ddqueue.domain.queueing import Claim
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.storage.attempts import PostgresAttemptStore
from ddqueue.storage.engine import connect, transaction
from ddqueue.storage.events import EventKind

GATE = 7
"""The advisory lock that the late claimer's clock waits for."""


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    world = World(database_url)
    yield world
    world.sql_engine.dispose()


def test_a_claim_leaves_an_attempt_and_an_event(world: World) -> None:
    submitted = world.submit()
    job_id = world.jobs()[0]
    claim = world.claim(job_id)
    told = {"number": 1, "fence": claim.fence}
    assert _rows(
        world, "SELECT kind, sweep_id, job_id, attempt_id, host, detail FROM events WHERE job_id IS NOT NULL"
    ) == [(EventKind.CLAIMED, submitted.sweep_id, job_id, claim.attempt_id, RTX.name, told)]
    assert _rows(world, "SELECT job_id, number, fence, host, runner_pid, runner_start_ticks, worker FROM attempts") == [
        (job_id, 1, claim.fence, RTX.name, RUNNER.pid, RUNNER.start_ticks, RUNNER.worker)
    ]


def test_a_job_that_this_version_cannot_read_stays_queued(world: World) -> None:
    world.submit()
    job_id = world.jobs()[0]
    world.do("UPDATE sweeps SET measure = '{}'")
    with pytest.raises(KeyError):
        world.attempts.claim(RTX.name, job_id, RUNNER, 30.0)
    assert world.state(job_id) == "queued"
    assert world.one("SELECT count(*) FROM attempts") == 0
    assert world.events(EventKind.CLAIMED) == []


def test_a_claim_that_a_whole_attempt_has_overtaken_comes_too_late(world: World) -> None:
    """Its statement began before that attempt: it sees the job queued again, and not that a first attempt has been."""
    world.submit(a_sweep(hosts=[RTX]))
    job_id = world.jobs()[0]
    with _late_claim(world, job_id) as late:
        first = world.claim(job_id)
        world.attempts.finish(first, AttemptOutcome.CANCELLED, Decision(JobState.QUEUED))
    assert late == [None]
    assert world.state(job_id) == "queued"
    assert world.claim(job_id).attempt_number == 2
    assert len(world.events(EventKind.CLAIMED)) == 2


@contextmanager
def _late_claim(world: World, job_id: int) -> Iterator[list[Claim | None]]:
    """A claim whose statement has begun when the block begins, and goes on when it ends; then the list holds what it
    gave. The claimer has a clock of its own, found before Postgres's, that waits."""
    name = make_url(world.database_url).database
    world.do("CREATE SCHEMA late")
    world.do(
        "CREATE FUNCTION late.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN"
        f" PERFORM pg_advisory_lock_shared({GATE}), pg_advisory_unlock_shared({GATE});"
        " RETURN pg_catalog.clock_timestamp(); END $$"
    )
    world.do(f'ALTER DATABASE "{name}" SET search_path = late, pg_catalog, public')
    sql_engine = connect(world.database_url, "late claimer")
    with transaction(sql_engine):
        pass  # The pool keeps the connection; those that are made from now on have the clock of all.
    world.do(f'ALTER DATABASE "{name}" RESET search_path')
    store, gave = PostgresAttemptStore(sql_engine), list[Claim | None]()
    claimer = threading.Thread(target=lambda: gave.append(store.claim(RTX.name, job_id, RUNNER, 30.0)))
    try:
        with transaction(world.sql_engine) as gate:
            gate.execute(text(f"SELECT pg_advisory_xact_lock({GATE})"))
            claimer.start()
            while claimer.is_alive() and not world.one(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            ):
                time.sleep(0.01)
            yield gave
        claimer.join()
    finally:
        sql_engine.dispose()


def _rows(world: World, query: str) -> list[tuple[object, ...]]:
    with transaction(world.sql_engine) as connection:
        return [tuple(row) for row in connection.execute(text(query))]
