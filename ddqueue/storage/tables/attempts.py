"""Attempts with their phases, and the log of what happened."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy import text as sql
from sqlalchemy.dialects.postgresql import JSONB

from ddqueue.domain.failures import Failure
from ddqueue.domain.states import AttemptOutcome
from ddqueue.storage.tables.base import identity, metadata, moment, number, one_of, text

attempts = Table(
    "attempts",
    metadata,
    identity(),
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False, comment="counts the job's attempts from 1"),
    Column("fence", BigInteger, unique=True, comment="the job's fence while this attempt ran; null when imported"),
    Column("host", Text, ForeignKey("hosts.name"), nullable=False),
    moment("started_at", "when it was claimed, or imported", null=False, now=True),
    moment("ended_at"),
    text("outcome", "succeeded, failed, lost, cancelled or pruned; null while it runs", null=True),
    text("failure", "class", null=True),
    text("evidence", "the line or reading that decided", null=True),
    Column("runner_pid", Integer, comment="null when imported"),
    Column("runner_start_ticks", BigInteger, comment="clock ticks since boot; names the pid for ever"),
    text("worker", "the Celery worker that started the runner; null when imported", null=True),
    text("activity", "what it does now, for people who watch: its phase and how far it is", null=True),
    Column("simulated", Boolean, nullable=False, comment="ran on software GPUs: its numbers are not measurements"),
    Column("provenance", JSONB, comment="what it ran on and ran: GPUs, driver, clocks, versions, environment"),
    Column("requested", JSONB, comment="settings asked for"),
    Column("effective", JSONB, comment="settings the server says it runs"),
    Column("difference", JSONB, comment="setting -> [asked, effective]"),
    text("effective_hash", "equal for two servers that ran the same, whatever was asked of them", null=True),
    Column(
        "imported",
        JSONB,
        comment="null = it ran here; else what its row of the file says: line, acceptance_length, coding, written",
    ),
    UniqueConstraint("job_id", "number"),
    CheckConstraint(one_of("outcome", AttemptOutcome), name="outcome_known"),
    CheckConstraint("(outcome IS NULL) = (ended_at IS NULL)", name="ended_has_an_outcome"),
    CheckConstraint(one_of("failure", Failure), name="failure_known"),
    CheckConstraint(
        "num_nulls(fence, runner_pid, runner_start_ticks, worker) = CASE WHEN imported IS NULL THEN 0 ELSE 4 END",
        name="imported_ran_nowhere",
    ),
    CheckConstraint("imported IS NULL OR outcome = 'succeeded'", name="imported_has_numbers"),
    CheckConstraint("outcome IS DISTINCT FROM 'failed' OR failure IS NOT NULL", name="failed_has_a_class"),
    CheckConstraint("failure IS NULL OR outcome IN ('failed', 'lost', 'cancelled')", name="no_failure_in_success"),
    # Exactly one attempt's results are accepted: what the views rank.
    Index("attempts_one_accepted_per_job", "job_id", unique=True, postgresql_where=sql("outcome = 'succeeded'")),
    # The circuit breaker asks for a host's newest ones, and `hosts` for its failures.
    Index("attempts_ended", "host", sql("ended_at DESC"), postgresql_where=sql("outcome IS NOT NULL")),
    # Whoever recovers a host looks for its open attempts only.
    Index("attempts_open", "host", postgresql_where=sql("outcome IS NULL")),
    comment="One execution of a job. Numbers of an attempt that did not succeed are kept, and not accepted.",
)

phases = Table(
    "phases",
    metadata,
    Column("attempt_id", ForeignKey("attempts.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False, comment="order stored, from 1"),
    text("name"),
    moment("started_at", null=False),
    number("duration_s", "seconds", null=False),
    text("detail"),
    UniqueConstraint("attempt_id", "name", "started_at"),
    CheckConstraint("duration_s >= 0 AND duration_s < 'Infinity'", name="duration_finite"),
    comment="One timed step of an attempt.",
)

events = Table(
    "events",
    metadata,
    identity(),
    moment("at", null=False, now=True),
    Column("sweep_id", ForeignKey("sweeps.id", ondelete="CASCADE")),
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE"), index=True),
    Column("attempt_id", ForeignKey("attempts.id", ondelete="CASCADE")),
    text("host", null=True),
    text("kind"),
    Column("detail", JSONB, nullable=False, server_default=sql("'{}'::jsonb")),
    Index("events_sweep_id_idx", "sweep_id", "id"),
    comment="What happened, in order, written in the transaction that made it so.",
)
