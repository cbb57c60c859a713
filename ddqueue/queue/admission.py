"""What a message from the broker must be to be let in. Whatever else reaches a queue of ours is refused here.

Celery trusts its broker: one message without headers, or whose body is no list, ends a worker or comes back to it for
ever. So a message is taken apart before Celery sees it and put together anew, from what ours hold and nothing else.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

TASK = "ddqueue.run_job"
"""The one task; its arguments are a job's id and the host's name."""

CONTROL = "celery.pidbox"
"""The exchange of what is asked of workers; a worker's own queue there ends with it."""

REPLIES = "reply.celery.pidbox"

ASKED = frozenset(
    {
        *("ping", "stats", "conf", "report", "clock", "active_queues", "registered", "enable_events", "heartbeat"),
        *("active", "reserved", "scheduled", "revoked", "query_task"),
    }
)
"""What may be asked of a worker: that it says something of itself. What would change or end something is refused, since
Postgres decides what runs."""

_WAKE_UP_BYTES = 64 * 1024
_LARGEST_JOB = 2**63 - 1
_JSON = {"content-type": "application/json", "content-encoding": "utf-8"}


class NotOurs(Exception):
    """A message that none of ours has sent; the text says what is wrong with it and repeats none of it."""


def wake_up(raw: Any, host: str) -> dict[str, Any]:
    """The wake-up of `host` that `raw` is, as Kombu's virtual transports carry one. Raises NotOurs."""
    body = _body(raw, _WAKE_UP_BYTES)
    headers = _mapping(raw, "headers")
    if headers.get("task") != TASK:
        raise NotOurs("it asks for another task")
    arguments = body[0] if isinstance(body, list) and body else None
    job_id, named = arguments if isinstance(arguments, list) and len(arguments) == 2 else (None, None)
    if type(job_id) is not int or not 0 < job_id <= _LARGEST_JOB:
        raise NotOurs("it names no job")
    if named != host:
        raise NotOurs("it is for another host")
    kept = {
        "lang": "py",
        "task": TASK,
        "id": _text(headers, "id"),
        "root_id": _text(headers, "id"),
        "parent_id": None,
        "group": None,
        "expires": _time(headers.get("expires")),
        "shadow": None if headers.get("shadow") is None else _text(headers, "shadow"),
        "argsrepr": None if headers.get("argsrepr") is None else _text(headers, "argsrepr"),
        "kwargsrepr": "",
        "retries": 0,
        "eta": None,
        "timelimit": [None, None],
    }
    embedded = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    return _message(raw, kept, [[job_id, named], {}, embedded])


def question(raw: Any) -> dict[str, Any]:
    """The question to a worker that `raw` is. Raises NotOurs."""
    body = _body(raw, _WAKE_UP_BYTES)
    method = body.get("method") if isinstance(body, dict) else None
    if not isinstance(method, str) or method not in ASKED:
        raise NotOurs("it asks a worker for what none does")
    if not isinstance(body.get("arguments") or {}, dict) or not isinstance(body.get("destination") or [], list):
        raise NotOurs("it asks a worker in no known way")
    reply_to = body.get("reply_to")
    if reply_to is not None and (_mapping(body, "reply_to").get("exchange") != REPLIES):
        raise NotOurs("it wants its answer elsewhere")
    kept = {name: body.get(name) for name in ("method", "arguments", "destination", "ticket", "reply_to")}
    if reply_to is not None:
        kept["reply_to"] = {"exchange": REPLIES, "routing_key": _text(reply_to, "routing_key")}
        kept["ticket"] = _text(body, "ticket")
    clock = _mapping(raw, "headers").get("clock")
    return _message(raw, {"clock": clock if type(clock) is int and 0 <= clock <= _LARGEST_JOB else 0}, kept)


def other(raw: Any) -> dict[str, Any]:
    """Any other message, an event or an answer, as far as its outside goes. Raises NotOurs."""
    return _message(raw, dict(_mapping(raw, "headers")), _body(raw, None))


def _body(raw: Any, limit: int | None) -> Any:
    """The JSON value that the message carries."""
    if not isinstance(raw, dict):
        raise NotOurs("it is no message")
    if any(raw.get(name) != value for name, value in _JSON.items()):
        raise NotOurs("its content is not JSON in UTF-8")
    encoded, encoding = raw.get("body"), _mapping(raw, "properties").get("body_encoding")
    if not isinstance(encoded, str) or encoding != "base64":
        raise NotOurs("its body is not in base64")
    if limit is not None and len(encoded) > limit:
        raise NotOurs(f"its body is larger than {limit} bytes")
    try:
        return json.loads(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise NotOurs("its body cannot be read") from None


def _message(raw: Any, headers: Mapping[str, Any], body: Any) -> dict[str, Any]:
    properties = _mapping(raw, "properties")
    return {
        **_JSON,
        "body": base64.b64encode(json.dumps(body).encode()).decode(),
        "headers": dict(headers),
        "properties": {
            "delivery_tag": _text(properties, "delivery_tag"),
            "delivery_info": {
                name: _text(_mapping(properties, "delivery_info"), name) for name in ("exchange", "routing_key")
            },
            "delivery_mode": 2,
            "priority": 0,
            "body_encoding": "base64",
            "correlation_id": properties.get("correlation_id"),
            "reply_to": properties.get("reply_to"),
        },
    }


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, dict):
        raise NotOurs(f"it has no {name}")
    return found


def _text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or len(found) > 2000:
        raise NotOurs(f"its {name} is no short text")
    return found


def _time(value: Any) -> str | None:
    if value is None:
        return None
    try:
        return datetime.fromisoformat(value).isoformat()
    except (TypeError, ValueError):
        raise NotOurs("its time of expiry is none") from None
