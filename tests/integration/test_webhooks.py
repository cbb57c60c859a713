"""Webhooks on a real database and real sockets: told from committed rows, at least once, and never for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hook_server import hook_server
from storage_world import B300, RTX, World, a_sweep

from ddqueue.domain.failures import Failure
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.domain.sweep import jobs_of
from ddqueue.domain.webhooks import MOST_TRIES, DeliveryFailed, WebhookMessage
from ddqueue.ports import Submitted
from ddqueue.queue.posting import HttpPost
from ddqueue.services.webhooks import DeliverWebhooks
from ddqueue.storage.references import Target
from ddqueue.storage.webhooks import PostgresWebhooks

NOWHERE = "http://127.0.0.1:1/secret"
QUARANTINE = Decision(JobState.QUEUED, counts=False, quarantine=True)


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    world = World(database_url)
    yield world
    world.sql_engine.dispose()


def submit(world: World, url: str, name: str = "night") -> Submitted:
    sweep = a_sweep(name, budgets=(8,))
    return world.sweeps.add(sweep, jobs_of(sweep), [RTX, B300], webhook=url)


def delivering(world: World, limit_s: float = 20.0) -> DeliverWebhooks:
    return DeliverWebhooks(PostgresWebhooks(world.sql_engine), HttpPost(limit_s), lambda _: False)


def due_now(world: World) -> None:
    """As if the back-off were over."""
    world.do("UPDATE webhook_messages SET next_try_at = now() WHERE next_try_at IS NOT NULL")


def end_all(world: World) -> None:
    """Every job succeeds but the last one of b300, which fails."""
    rtx, b300 = world.jobs(), world.jobs("b300")
    for host, job_ids in (("rtx6000", rtx), ("b300", b300[:-1])):
        for job_id in job_ids:
            world.succeed(world.claim(job_id, host))
    claim = world.claim(b300[-1], "b300")
    world.attempts.finish(claim, AttemptOutcome.FAILED, Decision(JobState.FAILED), Failure.OOM_LOAD, "rank 3: 94 GB")


def messages(world: World, column: str) -> list[Any]:
    return world.column(f"SELECT {column} FROM webhook_messages ORDER BY id")


def test_the_end_is_told_once_with_what_became_of_the_jobs(world: World) -> None:
    with hook_server() as receiver:
        stored = submit(world, f"{receiver.url}/hook")
        deliver = delivering(world)
        assert deliver.once() == 0
        end_all(world)
        failed = world.jobs("b300")[1]
        world.control.cancel(Target(world.submit(a_sweep("without-a-webhook")).sweep_id))
        assert [deliver.once(), deliver.once()] == [1, 0]
    (body,) = receiver.got
    assert body == {
        "id": 1,
        "version": 1,
        "text": "night@1 (simulated) has ended: 3 of 4 jobs succeeded, 1 failed",
        "kind": "sweep_ended",
        "at": body["at"],
        "sweep": "night@1",
        "sweep_id": stored.sweep_id,
        "model": "kimi",
        "engine": "sim",
        "simulated": True,
        "all_succeeded": False,
        "jobs": {"total": 4, "succeeded": 3, "failed": 1, "unsupported": 0, "cancelled": 0, "pruned": 0},
        "failures": [
            {
                "job_id": failed,
                "host": "b300",
                "parallel": "EP8",
                "label": "b8 t4 w2048",
                "failure": "OOM_LOAD",
                "evidence": "rank 3: 94 GB",
            }
        ],
    }
    assert receiver.headers[0]["Content-Type"] == "application/json"
    assert receiver.headers[0]["X-Ddqueue-Message"] == "1"


def test_a_retried_sweep_is_told_of_again(world: World) -> None:
    with hook_server() as receiver:
        stored = submit(world, receiver.url)
        end_all(world)
        deliver = delivering(world)
        assert deliver.once() == 1
        assert len(world.control.retry(Target(stored.sweep_id))) == 1
        assert deliver.once() == 0
        world.succeed(world.claim(world.jobs("b300")[1], "b300"))
        assert deliver.once() == 1
    assert [body["all_succeeded"] for body in receiver.got] == [False, True]


def test_a_cancelled_sweep_has_ended_too(world: World) -> None:
    with hook_server() as receiver:
        world.control.cancel(Target(submit(world, receiver.url).sweep_id))
        assert delivering(world).once() == 1
    assert receiver.got[0]["jobs"] == {
        "total": 4,
        "succeeded": 0,
        "failed": 0,
        "unsupported": 0,
        "cancelled": 4,
        "pruned": 0,
    }


def test_a_quarantine_is_told_to_the_sweeps_that_use_the_host(world: World) -> None:
    with hook_server() as receiver:
        submit(world, receiver.url)
        only_b300 = a_sweep("elsewhere", hosts=(B300,))
        world.sweeps.add(only_b300, jobs_of(only_b300), [B300], webhook=receiver.url)
        claim = world.claim(world.jobs()[0])
        world.attempts.finish(claim, AttemptOutcome.FAILED, QUARANTINE, Failure.GPU_LOST, "GPU 3 does not answer")
        deliver = delivering(world)
        assert [deliver.once(), deliver.once()] == [1, 0]
        # A second fault of a host that is shut already is no news.
        world.attempts.quarantine("rtx6000", Failure.GPU_BUSY, "again")
        assert deliver.once() == 0
        # A sweep that comes later waits for the host too.
        submit(world, receiver.url, "later")
        assert deliver.once() == 1
    told = [(body["kind"], body["sweep"], body["host"], body["jobs_waiting"]) for body in receiver.got]
    assert told == [
        ("host_quarantined", "night@1", "rtx6000", 2),
        ("host_quarantined", "later@1", "rtx6000", 2),
    ]
    assert (receiver.got[0]["failure"], receiver.got[0]["reason"]) == ("GPU_LOST", "GPU 3 does not answer")


def test_a_receiver_that_fails_twice_gets_the_message_the_third_time(world: World) -> None:
    with hook_server([500, 404]) as receiver:
        submit(world, receiver.url)
        end_all(world)
        deliver = delivering(world)
        assert deliver.once() == 0
        assert messages(world, "error") == ["it answered 500"]
        assert messages(world, "next_try_at > now()") == [True], "not at once"
        assert deliver.once() == 0
        assert len(receiver.got) == 1
        due_now(world)
        assert deliver.once() == 0
        due_now(world)
        assert deliver.once() == 1
    assert [body["id"] for body in receiver.got] == [1, 1, 1]
    assert (messages(world, "tries"), messages(world, "error")) == ([3], [None])
    assert messages(world, "delivered_at IS NOT NULL AND next_try_at IS NULL") == [True]


def test_tries_end(world: World) -> None:
    submit(world, NOWHERE)
    end_all(world)
    deliver = delivering(world)
    for _ in range(MOST_TRIES + 3):
        assert deliver.once() == 0
        due_now(world)
    assert messages(world, "tries") == [MOST_TRIES]
    assert messages(world, "next_try_at IS NULL AND delivered_at IS NULL") == [True]
    (error,) = messages(world, "error")
    assert error == "ConnectionRefusedError: Connection refused"


def test_a_sender_that_dies_before_it_said_so_repeats_the_message(world: World) -> None:
    with hook_server() as receiver:
        submit(world, receiver.url)
        end_all(world)
        store = PostgresWebhooks(world.sql_engine)
        store.note_ends()
        taken = store.take_due(60.0)
        assert taken is not None
        HttpPost().post(taken)
        # Nobody else sends it while that one may still be alive.
        assert store.take_due(60.0) is None
        due_now(world)
        assert delivering(world).once() == 1
    assert [body["id"] for body in receiver.got] == [taken.message_id] * 2


def test_a_receiver_that_hangs_holds_nobody_for_long(world: World) -> None:
    with hook_server() as hanging, hook_server() as receiver:
        hanging.hang.set()
        submit(world, hanging.url, "first")
        submit(world, receiver.url, "second")
        for sweep in ("first", "second"):
            world.control.cancel(Target(world.reader.sweep(sweep).sweep_id))
        assert delivering(world, limit_s=0.5).once() == 1
        assert [body["sweep"] for body in receiver.got] == ["second@1"]
        assert messages(world, "error") == ["no answer within 0.5 s", None]


def test_a_message_goes_nowhere_that_its_receiver_says() -> None:
    with hook_server([307]) as receiver:
        with pytest.raises(DeliveryFailed, match="it answered 307"):
            HttpPost().post(WebhookMessage(1, receiver.url, ENDED, 1))
        assert len(receiver.got) == 1


ENDED = {
    "kind": "sweep_ended",
    "sweep": "night@1",
    "simulated": False,
    "jobs": {"total": 1, "succeeded": 1, "failed": 0, "unsupported": 0, "cancelled": 0, "pruned": 0},
}


def test_two_senders_share_the_work(world: World) -> None:
    with hook_server() as receiver:
        for number in range(12):
            world.control.cancel(Target(submit(world, receiver.url, f"s{number}").sweep_id))
        senders = [delivering(world) for _ in range(2)]
        threads = [threading.Thread(target=sender.once) for sender in senders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(body["sweep"] for body in receiver.got) == sorted(f"s{number}@1" for number in range(12))
