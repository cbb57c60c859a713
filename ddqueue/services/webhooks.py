"""Telling webhooks what happened to their sweeps: at least once, with back-off, beside the dispatcher's own work."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ddqueue.domain.webhooks import DeliveryFailed, WebhookMessage, retry_delay_s
from ddqueue.errors import NotReachable

log = logging.getLogger(__name__)

_POLL_S = 1.0
_HELD_S = 60.0
"""Longer than any one try takes."""
_AT_ONCE = 20
"""Messages sent in a row before it is asked again whether to end."""


class WebhookStore(Protocol):
    """Where messages wait. Every method raises NotReachable when the database does not answer."""

    def note_ends(self) -> None:
        """Write a message for each sweep that has ended since the last look."""
        ...

    def take_due(self, held_s: float) -> WebhookMessage | None:
        """One message to send, which nobody else gets for `held_s`; None when none is due."""
        ...

    def delivered(self, message: WebhookMessage) -> None: ...

    def failed(self, message: WebhookMessage, error: str, again_in_s: float | None) -> None:
        """Try again in so many seconds, or never (None)."""
        ...


class WebhookPost(Protocol):
    """Sends one message."""

    def post(self, message: WebhookMessage) -> None:
        """Returns once the receiver has answered with 2xx; raises DeliveryFailed otherwise."""
        ...


@dataclass(frozen=True)
class DeliverWebhooks:
    """Runs in a thread of its own: a receiver that hangs holds up other receivers, and nothing else."""

    store: WebhookStore
    receivers: WebhookPost
    pause: Callable[[float], bool]
    """Sleeps so many seconds, less when it is time to end; True then."""

    def run(self) -> None:
        """Deliver until it is time to end. Survives whatever happens: nobody would start it again."""
        while not self.pause(_POLL_S):
            try:
                self.once()
            except NotReachable as away:
                log.debug("%s", away)
            except Exception:
                log.exception("a look at the webhooks failed")

    def once(self) -> int:
        """Send what is due; returns how many messages were delivered. Raises NotReachable."""
        self.store.note_ends()
        delivered = 0
        for _ in range(_AT_ONCE):
            message = self.store.take_due(_HELD_S)
            if message is None:
                break
            delivered += self._deliver(message)
        return delivered

    def _deliver(self, message: WebhookMessage) -> bool:
        what = f"message {message.message_id} ({message.payload['kind']} of {message.payload['sweep']})"
        try:
            self.receivers.post(message)
        except DeliveryFailed as error:
            again_in_s = retry_delay_s(message.tries)
            then = "given up" if again_in_s is None else f"again in {again_in_s:.0f} s"
            log.warning("%s was not taken by %s, try %d: %s; %s", what, message.place, message.tries, error, then)
            self.store.failed(message, str(error), again_in_s)
            return False
        self.store.delivered(message)
        log.info("%s was taken by %s", what, message.place)
        return True
