"""The tables, by subject. Migrations must produce exactly these; a test compares the two."""

from ddqueue.storage.tables.attempts import attempts, events, phases
from ddqueue.storage.tables.base import metadata
from ddqueue.storage.tables.coding import answers, scores
from ddqueue.storage.tables.compatibility import dispatchers, schema_compatibility
from ddqueue.storage.tables.measurements import measurements, samples, telemetry
from ddqueue.storage.tables.queue import fence, hosts, jobs
from ddqueue.storage.tables.sweeps import cells, sweeps
from ddqueue.storage.tables.webhooks import webhook_messages, webhooks

__all__ = [
    "answers",
    "attempts",
    "cells",
    "dispatchers",
    "events",
    "fence",
    "hosts",
    "jobs",
    "measurements",
    "metadata",
    "phases",
    "samples",
    "schema_compatibility",
    "scores",
    "sweeps",
    "telemetry",
    "webhook_messages",
    "webhooks",
]
