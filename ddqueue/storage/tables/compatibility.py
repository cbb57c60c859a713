"""Which programs may work with these tables, and which dispatchers do."""

from __future__ import annotations

from sqlalchemy import Boolean, CheckConstraint, Column, Table, Text, true

from ddqueue.storage.tables.base import metadata, moment, text

schema_compatibility = Table(
    "schema_compatibility",
    metadata,
    Column("only_row", Boolean, primary_key=True, server_default=true()),
    text("oldest_supported", "the oldest revision whose programs still work; only a contracting migration raises it"),
    CheckConstraint("only_row", name="is_one_row"),
    CheckConstraint("oldest_supported ~ '^[0-9]{4}$'", name="revision_is_four_digits"),
    comment="How old a program may be that works with these tables.",
)

dispatchers = Table(
    "dispatchers",
    metadata,
    Column("name", Text, primary_key=True, comment="the machine it runs on"),
    text("version", "its ddqueue"),
    moment("seen_at", "its newest sign of life: every few seconds while it leads or stands by", null=False),
    comment="The dispatchers that have worked with this database.",
)
