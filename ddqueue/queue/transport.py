"""Redis as Kombu speaks it, with a gate: what is not ours is dropped, with one line, before Celery sees it."""

from __future__ import annotations

import logging
from queue import Empty
from typing import Any

from kombu.transport.redis import Channel, Transport
from kombu.utils.json import loads

from ddqueue.queue.admission import CONTROL, REPLIES, NotOurs, other, question, wake_up

log = logging.getLogger(__name__)

GPU_QUEUE = "gpu."
"""A host's own queue is this and its name."""

_DROPPED = "a message in %s was dropped that is not ours: %s"
_NO_JSON = (ValueError, RecursionError)


class _GuardedChannel(Channel):
    """Reads on when what it took is no JSON. It has left Redis by then, so that it does not come back."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[no-untyped-call]  # Kombu has no types
        except _NO_JSON as error:
            log.warning(_DROPPED, "a queue", type(error).__name__)
            raise Empty from None

    def _handle_message(self, client: Any, r: Any) -> Any:
        payload = super()._handle_message(client, r)  # type: ignore[no-untyped-call]
        try:
            # What is subscribed to is told by a number.
            loads(payload["data"] if isinstance(payload["data"], bytes) else b"{}")  # type: ignore[no-untyped-call]
        except _NO_JSON as error:
            log.warning(_DROPPED, "an exchange", type(error).__name__)
            payload["data"] = None
        return payload


class GuardedTransport(Transport):
    """Hands on only what `admission` lets in."""

    Channel = _GuardedChannel

    def _deliver(self, message: Any, queue: str) -> None:
        try:
            admitted = _admitted(message, queue)
        except NotOurs as reason:
            log.warning(_DROPPED, queue, reason)
            return
        super()._deliver(admitted, queue)  # type: ignore[no-untyped-call]


def _admitted(message: Any, queue: str) -> dict[str, Any]:
    if queue.startswith(GPU_QUEUE):
        return wake_up(message, queue.removeprefix(GPU_QUEUE))
    if queue.endswith(CONTROL) and not queue.endswith(REPLIES):
        return question(message)
    return other(message)
