"""Messages that are not ours, in the queues of a real worker: each is dropped with one line, and the next job runs."""

from __future__ import annotations

import base64
import json
import pickle
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis
from installation import Installation, sweep_text

from ddqueue.queue.app import TASK, make_app, queue_of

HOST = "sim-rtx6000"
PATIENCE_S = 60.0
"""Before a message counts as ignored; no assertion depends on how long anything takes."""
QUEUE = queue_of(HOST)
CONTROL = "/0.celery.pidbox"
"""The channel on which Celery's workers are asked things."""
DROPPED = "was dropped that is not ours"
UNCLAIMED = "cannot be claimed now"


def envelope(body: bytes, headers: Any = None, content_type: str = "application/json", **properties: Any) -> str:
    """A message as Kombu lays it into Redis."""
    return json.dumps(
        {
            "body": base64.b64encode(body).decode(),
            "content-encoding": "utf-8",
            "content-type": content_type,
            "headers": headers or {},
            "properties": {
                "correlation_id": "c",
                "reply_to": "r",
                "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": QUEUE},
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": str(uuid.uuid4()),
                **properties,
            },
        }
    )


def call(arguments: Any, task: Any = TASK, more: Any = None, **headers: Any) -> str:
    """A task's message as Celery makes it."""
    known = {"lang": "py", "task": task, "id": str(uuid.uuid4()), "root_id": "r", "parent_id": None, "group": None}
    known |= {"shadow": "s", "argsrepr": "a", "kwargsrepr": ""}
    return envelope(json.dumps([arguments, more or {}, {}]).encode(), {**known, **headers})


def changed(message: str, **changes: Any) -> str:
    return json.dumps({**json.loads(message), **changes})


HEADERS = {"task": TASK, "id": "1", "lang": "py", "shadow": "s", "argsrepr": "a"}
RIGHT = call([1, HOST])

WAKE_UPS: dict[str, str | bytes] = {
    "an unknown task": call(["id"], task="os.system"),
    "a task that is a list": call([1, HOST], task=[1]),
    "no arguments": call([]),
    "too many arguments": call([1, HOST, 3]),
    "arguments of wrong types": call([HOST, 1]),
    "a list for a job": call([[1], HOST]),
    "true for a job": call([True, HOST]),
    "half a job": call([1.5, HOST]),
    "a job below zero": call([-1, HOST]),
    "a job beyond all": call([10**30, HOST]),
    "ten megabytes for a job": call(["x" * 10_000_000, HOST]),
    "another host": call([1, "sim-b300"]),
    "a path for a host": call([1, "../../etc"]),
    "a host with a NUL": call([1, f"{HOST}\0"]),
    "a pickle": envelope(pickle.dumps([[1, HOST], {}, {}]), HEADERS, "application/x-python-serialize"),
    "YAML": envelope(b"[[1], {}, {}]", HEADERS, "application/x-yaml"),
    "a type nobody knows": envelope(b"[[1], {}, {}]", HEADERS, "text/evil"),
    "a body that is no JSON": envelope(b"{not json", HEADERS),
    "a body that is a number": envelope(b"5", HEADERS),
    "a body that is a mapping": envelope(b"{}", HEADERS),
    "a body that is no UTF-8": envelope(b"\xff\xfe", HEADERS),
    "a body 100,000 deep": envelope(b"[" * 100_000, HEADERS),
    "a body that is no base64": changed(RIGHT, body="!!!%"),
    "a body in an unknown encoding": envelope(b"[]", HEADERS, body_encoding="rot13"),
    "no headers": changed(RIGHT, headers=None),
    "headers in a list": changed(RIGHT, headers=[1]),
    "empty headers": envelope(json.dumps({"task": TASK}).encode()),
    "no id": envelope(json.dumps([[1, HOST], {}, {}]).encode(), {"task": TASK}),
    "an id that is a mapping": call([1, HOST], id={}),
    "an expiry that is no time": call([1, HOST], expires="never"),
    "no properties": changed(RIGHT, properties=None),
    "properties in a list": changed(RIGHT, properties=[]),
    "no delivery tag": changed(RIGHT, properties={"body_encoding": "base64", "delivery_info": {}}),
    "a list": "[]",
    "null": "null",
    "a number": "5",
    "a text": '"x"',
    "an empty mapping": "{}",
    "nothing": "",
    "no JSON": "hello",
    "no text": b"\xff\xfe\x00",
    "100,000 deep": "[" * 100_000,
}


def asked(method: Any, **more: Any) -> str:
    return envelope(json.dumps({"method": method, "arguments": {}, **more}).encode(), {"clock": 1, "expires": 0})


QUESTIONS: dict[str, str | bytes] = {
    "an end": asked("shutdown"),
    "another pool": asked("pool_restart"),
    "no more of this queue": asked("cancel_consumer", arguments={"queue": QUEUE}),
    "a question nobody knows": asked("evil"),
    "a method that is a list": asked(["ping"]),
    "arguments in a list": asked("ping", arguments=[1]),
    "a destination that is a number": asked("ping", destination=5),
    "an answer to the queue": asked("ping", reply_to={"exchange": "", "routing_key": QUEUE}, ticket="t"),
    "an answer to nothing": asked("ping", reply_to="x", ticket="t"),
    "a pickle": envelope(pickle.dumps({"method": "ping"}), {}, "application/x-python-serialize"),
    "a body in a list": envelope(b"[]"),
    "no base64": changed(asked("ping"), body="!!!%"),
    "no properties": changed(asked("ping"), properties=None),
    "a list": "[]",
    "no JSON": "hello",
    "no text": b"\xff\xfe\x00",
    "100,000 deep": "[" * 100_000,
}


def eventually(condition: Callable[[], Any], what: str, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}\n{log.read_text()[-3000:]}"
        time.sleep(0.02)


def lines(log: Path, words: str) -> list[str]:
    return [line for line in log.read_text().splitlines() if words in line]


@pytest.fixture
def broker(redis_url: str) -> redis.Redis:
    return redis.Redis.from_url(redis_url)


def test_a_worker_drops_what_is_not_ours_and_runs_the_next_job(
    installation: Installation, broker: redis.Redis, redis_url: str
) -> None:
    worker = installation.start("worker", "--host", HOST)
    log = next(installation.home.glob("worker-*.log"))
    eventually(lambda: broker.pubsub_numpat() > 0, "the worker never listened", log)

    _all_are_dropped(WAKE_UPS, lambda message: broker.lpush(QUEUE, message), log)
    _all_are_dropped(QUESTIONS, lambda message: broker.publish(CONTROL, message), log)
    assert worker.poll() is None
    assert broker.llen(QUEUE) == 0
    assert broker.hlen("unacked") == 0
    assert "Traceback" not in log.read_text()

    # What looks right in all but the job: Postgres says no.
    broker.lpush(QUEUE, call([999, HOST]))
    eventually(lambda: lines(log, f"job 999 {UNCLAIMED}"), "the job that is not there was not refused", log)

    assert make_app(redis_url).control.inspect(timeout=10).ping() == {f"gpu@{HOST}": {"ok": "pong"}}
    sweep = installation.submit(sweep_text("after"))
    installation.start("dispatcher")
    assert [job["state"] for job in installation.wait_final(sweep)] == ["succeeded"]
    assert worker.poll() is None
    eventually(lambda: broker.hlen("unacked") == 0, "a message was never acknowledged", log)


def _all_are_dropped(messages: Mapping[str, str | bytes], send: Callable[[Any], Any], log: Path) -> None:
    """Each with one line of its own, which repeats nothing of it."""
    for name, message in messages.items():
        before, size = len(lines(log, DROPPED)), log.stat().st_size
        send(message)
        eventually(lambda before=before: len(lines(log, DROPPED)) > before, f"nothing was said of {name}", log)  # type: ignore[misc]
        assert log.stat().st_size - size < 400, f"{name}: {log.read_text()[-3000:]}"
