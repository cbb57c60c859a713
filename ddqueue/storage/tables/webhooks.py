"""Webhooks given with sweeps, and the messages for them: written by the dispatcher's side, sent from committed rows."""

from __future__ import annotations

from sqlalchemy import Boolean, CheckConstraint, Column, ForeignKey, Index, Integer, Table, false
from sqlalchemy import text as sql
from sqlalchemy.dialects.postgresql import JSONB

from ddqueue.domain.webhooks import WebhookKind
from ddqueue.storage.tables.base import identity, metadata, moment, one_of, text

webhooks = Table(
    "webhooks",
    metadata,
    Column("sweep_id", ForeignKey("sweeps.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    text("url", "may hold the receiver's secret"),
    Column(
        "told_end",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="a message says that the sweep has ended; false again once a job of it is retried",
    ),
    comment="Where the end of a sweep is told, and the quarantine of its hosts.",
)

webhook_messages = Table(
    "webhook_messages",
    metadata,
    identity(),
    Column("sweep_id", ForeignKey("webhooks.sweep_id", ondelete="CASCADE"), nullable=False, index=True),
    text("kind", "sweep_ended or host_quarantined"),
    Column("payload", JSONB, nullable=False, comment="what is sent, as it was when it happened"),
    moment("created_at", null=False, now=True),
    Column("tries", Integer, nullable=False, server_default=sql("0")),
    moment("next_try_at", "not before; pushed on while a try is under way; null once delivered or given up", now=True),
    moment("delivered_at", "when the receiver answered with 2xx"),
    text("error", "what became of the last try that failed", null=True),
    CheckConstraint(one_of("kind", WebhookKind), name="kind_known"),
    CheckConstraint("delivered_at IS NULL OR next_try_at IS NULL", name="delivered_once"),
    CheckConstraint("tries >= 0", name="tries_positive"),
    Index("webhook_messages_due", "next_try_at", postgresql_where=sql("next_try_at IS NOT NULL")),
    comment="One message to a webhook. Delivered at least once: a receiver knows a repeated one by its id.",
)
