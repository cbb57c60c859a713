"""A host that takes no job while its worker is exchanged: what a deployment holds, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, func, insert, select, update

from ddqueue.domain.inventory import Host
from ddqueue.storage import tables
from ddqueue.storage.control import PostgresControl
from ddqueue.storage.deploying import Hold, PostgresDeploying, Seen
from ddqueue.storage.engine import connect, transaction
from ddqueue.storage.programs import introduce_worker
from deploy.draining import Drained

HOST = "b300"
REASON = "me@here deploys 0.2.0"


@pytest.fixture
def sql_engine(database_url: str) -> Iterator[Engine]:
    engine = connect(database_url, "tests")
    with transaction(engine) as connection:
        connection.execute(insert(tables.hosts).values(name=HOST, gpus=8, gpu_kind="B300", simulated=False))
    yield engine
    engine.dispose()


def held(sql_engine: Engine) -> tuple[str | None, bool]:
    """The reason, and whether the hold ends by itself."""
    hosts = tables.hosts
    with transaction(sql_engine) as connection:
        row = connection.execute(select(hosts.c.hold_reason, hosts.c.held_until).where(hosts.c.name == HOST)).one()
        return row.hold_reason, row.held_until is not None


def test_a_hold_is_renewed_and_ends_with_its_deployment(sql_engine: Engine) -> None:
    queue = PostgresDeploying(sql_engine)
    with Drained(queue, HOST, REASON):
        assert held(sql_engine) == (REASON, True)
        assert queue.hold(HOST, REASON, 60) is Hold.OURS
        events = tables.events
        with transaction(sql_engine) as connection:
            kinds = connection.execute(select(events.c.kind).where(events.c.host == HOST)).scalars().all()
        assert kinds == ["held"], "renewing is no news"
    assert held(sql_engine) == (None, False)
    assert not queue.let_go(HOST, REASON)


def test_a_persons_hold_is_neither_changed_nor_ended(sql_engine: Engine) -> None:
    queue = PostgresDeploying(sql_engine)
    PostgresControl(sql_engine).hold(HOST, "I look at it", 3600)
    with Drained(queue, HOST, REASON):
        assert queue.hold(HOST, REASON, 60) is Hold.A_PERSONS
    assert held(sql_engine) == ("I look at it", True)


def test_when_a_persons_hold_ends_meanwhile_ours_begins(sql_engine: Engine) -> None:
    queue = PostgresDeploying(sql_engine)
    PostgresControl(sql_engine).hold(HOST, "for a moment", 3600)
    assert queue.hold(HOST, REASON, 60) is Hold.A_PERSONS
    with transaction(sql_engine) as connection:
        connection.execute(update(tables.hosts).values(held_until=func.clock_timestamp()))
    assert queue.hold(HOST, REASON, 60) is Hold.OURS
    assert held(sql_engine) == (REASON, True)


def test_a_quarantine_outlasts_a_deployment(sql_engine: Engine) -> None:
    hosts = tables.hosts
    shut = {"quarantined_at": func.clock_timestamp(), "quarantine_class": "GPU_LOST", "quarantine_reason": "Xid 79"}
    with transaction(sql_engine) as connection:
        connection.execute(update(hosts).values(**shut))
    with Drained(PostgresDeploying(sql_engine), HOST, REASON):
        pass
    with transaction(sql_engine) as connection:
        assert connection.execute(select(hosts.c.quarantine_reason)).scalar_one() == "Xid 79"


def test_a_host_nobody_has_heard_of(sql_engine: Engine) -> None:
    queue = PostgresDeploying(sql_engine)
    assert queue.hold("new", REASON, 60) is Hold.UNKNOWN_HOST
    assert not queue.let_go("new", REASON)
    assert queue.running_job("new") is None
    assert queue.worker_seen("new") == Seen(None, None)
    assert queue.dispatcher_seen("new") == Seen(None, None)


def test_what_a_worker_says_of_itself_is_younger_than_its_start(sql_engine: Engine) -> None:
    queue = PostgresDeploying(sql_engine)
    before = queue.now()
    introduce_worker(sql_engine, Host(HOST, 8, "B300"), None)
    seen = queue.worker_seen(HOST)
    assert seen.version is not None
    assert seen.at is not None
    assert seen.at >= before
