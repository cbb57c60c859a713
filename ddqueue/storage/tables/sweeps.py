"""Sweeps as submitted, and their cells."""

from __future__ import annotations

from sqlalchemy import Boolean, CheckConstraint, Column, ForeignKey, Integer, Table, Text, UniqueConstraint, false
from sqlalchemy import text as sql
from sqlalchemy.dialects.postgresql import JSONB

from ddqueue.storage.tables.base import identity, metadata, moment, text

sweeps = Table(
    "sweeps",
    metadata,
    identity(),
    text("name"),
    Column("revision", Integer, nullable=False, comment="1 for a new name; resubmitting a name adds one"),
    moment("submitted_at", null=False, now=True),
    text("model"),
    text("engine", "the engine profile: how a build of SGLang is started"),
    text("hypothesis", "what the person expects, in their words", null=True),
    text("out_of_distribution", "refuse or allow block sizes that the drafter was not trained for"),
    Column("simulated", Boolean, nullable=False, comment="runs on software GPUs: its numbers are not measurements"),
    Column("paused", Boolean, nullable=False, server_default=false(), comment="no job is claimed while true"),
    Column("priority", Integer, nullable=False, server_default=sql("0"), comment="higher goes first"),
    Column(
        "after_sweep_id",
        ForeignKey("sweeps.id", ondelete="SET NULL"),
        comment="none of its jobs starts before every job of that sweep has ended",
    ),
    text("file_name"),
    text("file_text", "the submitted file, as it was"),
    Column("measure", JSONB, nullable=False, comment="points [[concurrency, context, output]], repeats, coding"),
    Column(
        "imported",
        JSONB,
        comment="null = measured by ddqueue; else whence its numbers came: file, sha256, by, measured_on, note",
    ),
    UniqueConstraint("name", "revision"),
    CheckConstraint("revision >= 1", name="revision_counts_from_one"),
    CheckConstraint("out_of_distribution IN ('refuse', 'allow')", name="out_of_distribution_known"),
    comment="One submitted file; immutable but for paused and priority.",
)

cells = Table(
    "cells",
    metadata,
    Column("sweep_id", ForeignKey("sweeps.id", ondelete="CASCADE"), primary_key=True),
    Column("hash", Text, primary_key=True, comment="names the configuration, on any host"),
    Column("position", Integer, nullable=False, comment="order asked in the sweep, from 0"),
    text("label", "the name people use in tables, e.g. b8 t4 w2048"),
    Column("canonical", JSONB, nullable=False, comment="the whole configuration as plain values"),
    Column("baseline", Boolean, nullable=False, comment="no speculation"),
    Column("out_of_distribution", Boolean, nullable=False, comment="block_size differs from the drafter's trained one"),
    Column("block_size", Integer, comment="tokens; the depth limit is block_size - 1"),
    Column("budget", Integer, comment="tree nodes below the root; the target verifies budget + 1 tokens"),
    Column("topk", Integer, comment="ranks tried per position"),
    Column("draft_window", Integer, comment="the drafter's attention window in tokens; null = all"),
    UniqueConstraint("sweep_id", "position"),
    CheckConstraint("NOT baseline OR block_size IS NULL", name="baseline_has_no_speculation"),
    comment="One server configuration of a sweep, independent of host and parallelism.",
)
