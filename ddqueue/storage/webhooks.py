"""Webhooks and their messages in Postgres."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection, Engine, func, insert, update

from ddqueue.domain.webhooks import WebhookMessage
from ddqueue.storage import tables
from ddqueue.storage.engine import transaction
from ddqueue.storage.statements import statement
from ddqueue.storage.storable import Cleaner

MOST_FAILURES = 20
"""Failed jobs named in a message; all of them are in the database."""


def add_webhook(connection: Connection, sweep_id: int, url: str) -> None:
    """Within the transaction that stores the sweep; a host of it that is quarantined already is told of at once."""
    connection.execute(insert(tables.webhooks).values(sweep_id=sweep_id, url=url))
    connection.execute(statement("webhook_quarantine"), {"host": None, "sweep_id": sweep_id})


def tell_quarantine(connection: Connection, host: str) -> None:
    """Within the transaction that shuts the host."""
    connection.execute(statement("webhook_quarantine"), {"host": host, "sweep_id": None})


class PostgresWebhooks:
    """Implements services.webhooks.WebhookStore."""

    def __init__(self, sql_engine: Engine) -> None:
        self._sql_engine = sql_engine

    def note_ends(self) -> None:
        """Write a message for each sweep that has ended since the last look. Raises NotReachable."""
        with transaction(self._sql_engine) as connection:
            connection.execute(statement("webhook_ends"), {"most_failures": MOST_FAILURES})

    def take_due(self, held_s: float) -> WebhookMessage | None:
        """One message to send; nobody else gets it for `held_s`. Raises NotReachable."""
        with transaction(self._sql_engine) as connection:
            row = connection.execute(statement("webhook_due"), {"held_s": held_s}).first()
        return None if row is None else WebhookMessage(row.id, row.url, row.payload, row.tries)

    def delivered(self, message: WebhookMessage) -> None:
        """Raises NotReachable; the message is then sent again."""
        messages = tables.webhook_messages
        done = {"delivered_at": func.clock_timestamp(), "next_try_at": None, "error": None}
        with transaction(self._sql_engine) as connection:
            connection.execute(update(messages).where(messages.c.id == message.message_id).values(done))

    def failed(self, message: WebhookMessage, error: str, again_in_s: float | None) -> None:
        """Try again in so many seconds, or never (None). Raises NotReachable."""
        messages = tables.webhook_messages
        again = None if again_in_s is None else func.clock_timestamp() + timedelta(seconds=again_in_s)
        said = Cleaner().text(error, "error")
        with transaction(self._sql_engine) as connection:
            connection.execute(
                update(messages).where(messages.c.id == message.message_id).values(next_try_at=again, error=said)
            )
