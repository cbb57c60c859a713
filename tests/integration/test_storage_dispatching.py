"""What the dispatcher asks: order, one wake-up a host, leadership, waking by NOTIFY."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from storage_world import B300, RTX, World, a_sweep

from ddqueue.domain.failures import Failure
from ddqueue.domain.queueing import NextJob
from ddqueue.errors import NotReachable
from ddqueue.storage.dispatching import LEADER_LOCK, PostgresDispatchStore
from ddqueue.storage.engine import connect, transaction
from ddqueue.storage.events import announce
from ddqueue.storage.references import Target
from ddqueue.storage.statements import statement

LONG_S = 3600.0
"""Longer than any test: a second wake-up never comes by time alone."""


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    world = World(database_url)
    yield world
    world.sql_engine.dispose()


@pytest.fixture
def store(world: World) -> Iterator[PostgresDispatchStore]:
    store = PostgresDispatchStore(world.sql_engine)
    with store.lead():
        yield store


def test_one_job_for_each_idle_host_and_not_again(world: World, store: PostgresDispatchStore) -> None:
    world.submit()
    assert store.next_jobs(LONG_S) == [
        NextJob(world.jobs("b300")[0], "b300", "kimi-ddtree@1", "kimi", "baseline", "EP8"),
        NextJob(world.jobs("rtx6000")[0], "rtx6000", "kimi-ddtree@1", "kimi", "baseline", "EP8"),
    ]
    assert store.next_jobs(LONG_S) == []
    assert len(store.next_jobs(0.0)) == 2


def test_the_next_job_is_woken_as_soon_as_the_first_has_ended(world: World, store: PostgresDispatchStore) -> None:
    world.submit(a_sweep(hosts=[RTX]))
    for job_id in world.jobs():
        assert [job.job_id for job in store.next_jobs(LONG_S)] == [job_id]
        claim = world.claim(job_id)
        assert store.next_jobs(LONG_S) == []
        world.succeed(claim)
    assert store.next_jobs(LONG_S) == []


def test_order_is_sweep_priority_then_job_priority_then_age_then_position(
    world: World, store: PostgresDispatchStore
) -> None:
    first = world.submit(a_sweep("first", hosts=[RTX]))
    second = world.submit(a_sweep("second", hosts=[RTX]))
    urgent = world.submit(a_sweep("urgent", hosts=[RTX]), priority=5)
    ids = {
        name: world.column("SELECT id FROM jobs WHERE sweep_id = :s ORDER BY position", s=sweep.sweep_id)
        for name, sweep in (("first", first), ("second", second), ("urgent", urgent))
    }
    world.do("UPDATE jobs SET priority = 9 WHERE id = :id", id=ids["second"][2])
    expected = [*ids["urgent"], ids["second"][2], *ids["first"], *ids["second"][:2]]
    assert [row["job_id"] for row in world.reader.queue()] == expected
    order = []
    while found := store.next_jobs(LONG_S):
        order.append(found[0].job_id)
        world.succeed(world.claim(found[0].job_id))
    assert order == expected


def test_who_may_not_work_is_not_woken(world: World, store: PostgresDispatchStore) -> None:
    submitted = world.submit()
    world.attempts.quarantine("b300", Failure.GPU_LOST, "Xid 79")
    world.control.hold("rtx6000", "maintenance", 3600.0)
    assert store.next_jobs(0.0) == []
    world.control.release("rtx6000")
    assert [job.host for job in store.next_jobs(0.0)] == ["rtx6000"]
    world.control.pause(submitted.sweep_id)
    assert store.next_jobs(0.0) == []
    world.control.resume(submitted.sweep_id)
    assert [job.host for job in store.next_jobs(0.0)] == ["rtx6000"]


def test_a_job_that_backs_off_lets_the_next_one_pass(world: World, store: PostgresDispatchStore) -> None:
    world.submit(a_sweep(hosts=[RTX]))
    first, second, _ = world.jobs()
    world.do("UPDATE jobs SET not_before = now() + interval '1 hour' WHERE id = :id", id=first)
    assert [job.job_id for job in store.next_jobs(0.0)] == [second]


def test_a_cancelled_job_does_not_keep_its_host_waiting(world: World, store: PostgresDispatchStore) -> None:
    submitted = world.submit(a_sweep(hosts=[RTX]))
    first, second, _ = world.jobs()
    assert [job.job_id for job in store.next_jobs(LONG_S)] == [first]
    world.control.cancel(Target(submitted.sweep_id, first))
    assert [job.job_id for job in store.next_jobs(LONG_S)] == [second]


def test_an_expired_lease_wakes_recovery_with_the_dead_job(world: World, store: PostgresDispatchStore) -> None:
    world.submit(a_sweep(hosts=[RTX]))
    last = world.jobs()[2]
    claim = world.claim(last, lease_ttl_s=0.0)
    assert [job.job_id for job in store.next_jobs(LONG_S)] == [last]
    assert store.next_jobs(LONG_S) == []
    world.attempts.heartbeat(claim, 3600.0)
    assert store.next_jobs(0.0) == []


@pytest.mark.parametrize("change", ["submit", "finish", "requeue", "cancel", "retry", "resume", "release"])
def test_every_change_that_may_start_a_job_wakes_the_dispatcher(
    world: World, store: PostgresDispatchStore, change: str
) -> None:
    submitted = world.submit()
    job_id = world.jobs()[0]
    target = Target(submitted.sweep_id)
    claims = [world.claim(job_id)] if change in ("finish", "requeue") else []
    if change == "resume":
        world.control.pause(submitted.sweep_id)
    if change == "release":
        world.attempts.quarantine("rtx6000", Failure.GPU_LOST, "Xid 79")
    if change == "retry":
        world.control.cancel(target)
    _drain(store)
    act: dict[str, Any] = {
        "submit": world.submit,
        "finish": lambda: world.succeed(claims[0]),
        "requeue": lambda: world.attempts.requeue_dead("rtx6000", "gone"),
        "cancel": lambda: world.control.cancel(target),
        "retry": lambda: world.control.retry(target),
        "resume": lambda: world.control.resume(submitted.sweep_id),
        "release": lambda: world.control.release("rtx6000"),
    }
    waiter, woken = _wait_in_background(store)
    act[change]()
    assert woken.wait(30.0)
    waiter.join()


def _wait_in_background(store: PostgresDispatchStore) -> tuple[threading.Thread, threading.Event]:
    woken = threading.Event()

    def wait() -> None:
        store.wait(LONG_S)
        woken.set()

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    return waiter, woken


def _drain(store: PostgresDispatchStore) -> None:
    """What was announced so far is heard; each wait gives up after a moment without news."""
    for _ in range(6):
        store.wait(0.05)


def test_a_rolled_back_change_announces_nothing(world: World, store: PostgresDispatchStore) -> None:
    with pytest.raises(RuntimeError, match="on purpose"):
        _announce_and_fail(world)
    waiter, woken = _wait_in_background(store)
    assert not woken.wait(0.3)
    world.submit()
    assert woken.wait(30.0)
    waiter.join()


def _announce_and_fail(world: World) -> None:
    with transaction(world.sql_engine) as connection:
        announce(connection)
        raise RuntimeError("on purpose")


def test_one_leads_and_the_other_follows_when_its_connection_ends(world: World) -> None:
    first = PostgresDispatchStore(world.sql_engine)
    second_engine = connect(world.database_url, "second")
    second = PostgresDispatchStore(second_engine)
    leads, may_end = threading.Event(), threading.Event()

    def follow() -> None:
        with second.lead():
            leads.set()
            may_end.wait(60.0)

    follower = threading.Thread(target=follow, daemon=True)
    with first.lead():
        follower.start()
        assert not leads.wait(1.5)
        world.column(
            "SELECT pg_terminate_backend(l.pid) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database"
            " WHERE l.locktype = 'advisory' AND l.objid = :key AND l.granted AND d.datname = current_database()",
            key=LEADER_LOCK,
        )
        with pytest.raises(NotReachable):
            first.next_jobs(1.0)
    assert leads.wait(30.0)
    may_end.set()
    follower.join()
    with first.lead():
        world.submit()
        assert len(first.next_jobs(1.0)) == 2
    second_engine.dispose()


def test_a_follower_that_is_told_to_end_does(world: World) -> None:
    leader = PostgresDispatchStore(world.sql_engine)
    follower = PostgresDispatchStore(world.sql_engine, should_end=lambda: True)
    with leader.lead(), follower.lead(), pytest.raises(RuntimeError, match="lead"):
        follower.next_jobs(1.0)


def test_claim_and_next_jobs_use_their_indexes_in_a_queue_of_ten_thousand(
    world: World, store: PostgresDispatchStore
) -> None:
    world.submit(a_sweep(hosts=[RTX]))
    world.do(
        "INSERT INTO cells (sweep_id, hash, position, label, canonical, baseline, out_of_distribution)"
        " SELECT 1, 'cell' || n, n, 'cell' || n, '{}', false, false FROM generate_series(3, 10002) AS n"
    )
    world.do(
        "INSERT INTO jobs (sweep_id, cell_hash, host, parallel, tp, ep, pp, dp, position)"
        " SELECT 1, 'cell' || n, 'rtx6000', 'EP8', 8, 8, 1, 1, n FROM generate_series(3, 10002) AS n"
    )
    world.do("ANALYZE")
    plans: dict[str, dict[str, Any]] = {
        "next_jobs": {"wake_again_after_s": 1.0},
        "claim_job": {
            "job_id": 1,
            "host": "rtx6000",
            "lease_ttl_s": 1.0,
            "runner_pid": 1,
            "runner_start_ticks": 1,
            "worker": "gpu",
        },
        "heartbeat": {"job_id": 1, "fence": 1, "lease_ttl_s": 1.0, "activity": "measure"},
        "hold_fence": {"job_id": 1, "fence": 1},
    }
    for name, parameters in plans.items():
        query = f"EXPLAIN (FORMAT TEXT) {statement(name).text}"
        plan = "\n".join(world.column(query, **parameters))
        assert "Seq Scan on jobs" not in plan, plan
    assert "jobs_queue_order" in "\n".join(
        world.column(f"EXPLAIN {statement('next_jobs').text}", wake_again_after_s=1.0)
    )
    assert [job.job_id for job in store.next_jobs(LONG_S)] == [1]


def test_hosts_without_jobs_are_left_alone(world: World, store: PostgresDispatchStore) -> None:
    world.submit(a_sweep(hosts=[B300]), hosts=(RTX, B300))
    assert [job.host for job in store.next_jobs(0.0)] == ["b300"]
