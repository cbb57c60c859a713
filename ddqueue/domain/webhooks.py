"""Messages to a URL that a person gave with a sweep: what they may be, in words, and how long they are tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from ddqueue.errors import DdqueueError, UsageError

PAYLOAD_VERSION = 1
"""Counts up when a field changes its meaning or goes; new fields may come without it."""

MOST_TRIES = 18
LONGEST_DELAY_S = 3600.0


class DeliveryFailed(DdqueueError):
    """A receiver did not take a message; the text says why, and names no secret."""


class WebhookKind(StrEnum):
    """What a message tells."""

    SWEEP_ENDED = "sweep_ended"
    """Every job of the sweep is in a final state; told again when a person retried some and they ended too."""
    HOST_QUARANTINED = "host_quarantined"
    """A host with jobs of the sweep takes no more work until somebody looks after it."""


@dataclass(frozen=True)
class WebhookMessage:
    """One message on its way. `payload` holds plain JSON values; `tries` counts this one."""

    message_id: int
    url: str
    payload: Mapping[str, Any]
    tries: int

    @property
    def body(self) -> dict[str, Any]:
        """What is sent: the payload, an id by which a receiver knows a repeated message, and `text` in words, which
        chat services show."""
        return {"id": self.message_id, "version": PAYLOAD_VERSION, "text": words(self.payload), **self.payload}

    @property
    def place(self) -> str:
        """Where it goes, fit for a log: the rest of such a URL is often a secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname or ''}" + (f":{parts.port}" if parts.port else "")


def check_url(text: str) -> str:
    """The URL, if it is one that messages can be sent to.

    Raises:
        UsageError: it is not; the text says why.
    """
    remedy = "write --webhook https://HOST/PATH"
    if not text.isascii() or not text.isprintable() or " " in text:
        raise UsageError(f"the webhook's URL holds a character that no URL has; {remedy}")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"the webhook's URL cannot be read: {error}; {remedy}") from error
    if parts.scheme not in ("http", "https"):
        raise UsageError(f"a webhook is https or http, not {parts.scheme or 'a URL without a scheme'}; {remedy}")
    if not host:
        raise UsageError(f"the webhook's URL names no host; {remedy}")
    if parts.username is not None:
        raise UsageError("a user and password in a webhook's URL are not sent; put the receiver's secret into its path")
    return text


def retry_delay_s(tries: int) -> float | None:
    """Seconds to wait after so many failed tries: 1, 2, 4 ... up to an hour; None = give up, about seven hours on."""
    if tries >= MOST_TRIES:
        return None
    return float(min(2.0 ** (tries - 1), LONGEST_DELAY_S))


_NOT_SUCCEEDED = ("failed", "unsupported", "cancelled", "pruned")


def words(payload: Mapping[str, Any]) -> str:
    """A message in one line."""
    simulated = " (simulated)" if payload["simulated"] else ""
    sweep = f"{payload['sweep']}{simulated}"
    if payload["kind"] == WebhookKind.HOST_QUARANTINED:
        why = f"{payload['failure']}: {payload['reason']}"
        return f"{sweep}: {payload['host']} is quarantined, {payload['jobs_waiting']} jobs wait for it. {why}"
    jobs = payload["jobs"]
    others = ", ".join(f"{jobs[state]} {state}" for state in _NOT_SUCCEEDED if jobs[state])
    return f"{sweep} has ended: {jobs['succeeded']} of {jobs['total']} jobs succeeded{f', {others}' if others else ''}"
