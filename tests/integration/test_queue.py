"""The broker side, on a real Redis-protocol server: one wake-up a host, and progress as Flower receives it."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import redis
from celery import Celery

from ddqueue.domain.queueing import NextJob
from ddqueue.errors import NotReachable
from ddqueue.queue.app import make_app, queue_of
from ddqueue.queue.events import EventSender
from ddqueue.queue.wakeups import CeleryWakeups

JOB = NextJob(7, "rtx6000", "night@2", "kimi-k2.6", "b8 t4 w2048", "EP8")
NOWHERE = "redis://:secret@127.0.0.1:1/0"


def test_a_host_has_at_most_one_wake_up_however_often_it_is_woken(redis_url: str) -> None:
    wakeups = CeleryWakeups(make_app(redis_url))
    for _ in range(3):
        wakeups.wake(JOB)
    with redis.Redis.from_url(redis_url) as broker:
        assert broker.llen(queue_of("rtx6000")) == 1
        message = broker.lindex(queue_of("rtx6000"), 0).decode()
    assert '"shadow": "night@2 kimi-k2.6"' in message
    assert "job 7 on rtx6000: EP8 b8 t4 w2048" in message


def test_a_broker_that_is_away_is_said_without_its_password() -> None:
    with pytest.raises(NotReachable) as away:
        CeleryWakeups(make_app(NOWHERE)).wake(JOB)
    assert "secret" not in str(away.value)


def test_progress_arrives_as_states_with_text(redis_url: str) -> None:
    app = make_app(redis_url)
    sender = EventSender(app, "gpu@rtx6000")
    got: list[dict[str, Any]] = []
    ready = threading.Event()
    listener = threading.Thread(target=_listen, args=(app, got, ready), daemon=True)
    listener.start()
    assert ready.wait(20)
    deadline = time.monotonic() + 20
    while not got:
        # Events are not kept for those who come late; the receiver may still be binding its queue.
        sender.tell("0f6a", "capture graphs", "capture graphs 45% 9/20")
        assert time.monotonic() < deadline
        time.sleep(0.1)
    listener.join(20)
    event = got[0]
    assert (event["type"], event["uuid"], event["result"]) == (
        "task-capture-graphs",
        "0f6a",
        "capture graphs 45% 9/20",
    )
    assert event["hostname"] == "gpu@rtx6000"


def test_no_event_ever_holds_up_a_job() -> None:
    sender = EventSender(make_app(NOWHERE), "gpu@rtx6000")
    for number in range(500):
        sender.tell("0f6a", "measure", f"repeat {number}")
    sender.forget()
    assert [thread.name for thread in threading.enumerate()].count("events") >= 1


def _listen(app: Celery, got: list[dict[str, Any]], ready: threading.Event) -> None:
    with app.connection() as connection:
        receiver = app.events.Receiver(connection)

        def take(event: dict[str, Any]) -> None:
            got.append(event)
            receiver.should_stop = True

        receiver.handlers["task-capture-graphs"] = take
        ready.set()
        receiver.capture(limit=None, timeout=20, wakeup=False)
