"""Hosts and jobs: what the queue works on. The constraints refuse rows that the state table cannot produce."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    Sequence,
    Table,
    Text,
    UniqueConstraint,
    false,
)
from sqlalchemy import text as sql
from sqlalchemy.dialects.postgresql import JSONB

from ddqueue.domain.borrowing import LoanState
from ddqueue.domain.failures import Failure
from ddqueue.domain.states import FINAL, JobState
from ddqueue.storage.tables.base import identity, metadata, moment, one_of, text

fence = Sequence("fence", metadata=metadata)
"""The number that only grows: given at claim, carried by every later write."""

hosts = Table(
    "hosts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("gpus", Integer, nullable=False, comment="number of GPUs in the box"),
    text("gpu_kind"),
    text("interconnect", null=True),
    Column("simulated", Boolean, nullable=False, comment="a box that exists only in software"),
    moment("first_seen", null=False, now=True),
    moment("quarantined_at", "since when the host takes no work, because of a fault of the box"),
    text("quarantine_class", "the failure class of that fault", null=True),
    text("quarantine_reason", "the reading or line that decided", null=True),
    moment("held_at", "since when a person keeps the host free"),
    moment("held_until", "until when; null while held = until a person releases it"),
    text("hold_reason", null=True),
    moment("released_at", "when a person last let it work again: failures before that count against it no more"),
    text("worker_version", "the ddqueue of its worker, or of the newest attempt; null = never heard of", null=True),
    moment("worker_seen_at", "when that worker started, or an attempt of it last began"),
    Column(
        "borrow",
        JSONB,
        comment="how it is borrowed from production, as the box's own inventory says: hours, idle_s; null = it is ours",
    ),
    text("loan_state", "how far it is taken or given back; null = production has it", null=True),
    moment("borrowed_since", "when it was taken from production"),
    CheckConstraint("gpus > 0", name="has_gpus"),
    CheckConstraint(
        "(quarantined_at IS NULL) = (quarantine_class IS NULL)"
        " AND (quarantined_at IS NULL) = (quarantine_reason IS NULL)",
        name="quarantine_has_a_reason",
    ),
    CheckConstraint(one_of("quarantine_class", Failure), name="quarantine_class_known"),
    CheckConstraint("(held_at IS NULL) = (hold_reason IS NULL)", name="hold_has_a_reason"),
    CheckConstraint("held_until IS NULL OR held_at IS NOT NULL", name="hold_has_a_beginning"),
    CheckConstraint("(worker_version IS NULL) = (worker_seen_at IS NULL)", name="version_was_seen"),
    CheckConstraint(one_of("loan_state", LoanState), name="loan_state_known"),
    CheckConstraint("(loan_state IS NULL) = (borrowed_since IS NULL)", name="loan_has_a_beginning"),
    comment="One GPU box.",
)

_FINAL_STATES = [state for state in JobState if state in FINAL]

jobs = Table(
    "jobs",
    metadata,
    identity(),
    Column("sweep_id", ForeignKey("sweeps.id", ondelete="CASCADE"), nullable=False),
    text("cell_hash"),
    Column("host", Text, ForeignKey("hosts.name"), nullable=False),
    text("parallel", "the field's short name: TP8, EP8, EP4/TP8, PP8"),
    *(Column(size, Integer, nullable=False) for size in ("tp", "ep", "pp", "dp")),
    Column("visit", Integer, nullable=False, server_default=sql("1"), comment="counts the cell's starts here, from 1"),
    Column(
        "control",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="a visit of the control cell, whose spread over the sweep is the noise floor",
    ),
    Column("position", Integer, nullable=False, comment="order in which to run within the sweep, from 0"),
    Column("priority", Integer, nullable=False, server_default=sql("0"), comment="higher goes first in its sweep"),
    Column("state", Text, nullable=False, server_default=JobState.QUEUED.value),
    Column(
        "tries",
        Integer,
        nullable=False,
        server_default=sql("0"),
        comment="ended attempts that used up a try; faults of a host and lost attempts do not",
    ),
    Column("fence", BigInteger, comment="while running: the only number whose writes are accepted"),
    moment("lease_expires_at", "while running: past it the host's next attempt looks after the job"),
    moment("not_before", "while queued: back-off after a failure that may pass"),
    moment("woken_at", "when the dispatcher last nudged the host for this job; cleared by claim"),
    moment("cancel_requested_at", "a person wants the running attempt stopped"),
    moment("yield_requested_at", "a person wants the running attempt to stop and the job to wait again"),
    moment("created_at", null=False, now=True),
    moment("started_at", "when its latest attempt was claimed"),
    moment("finished_at"),
    text("failure", "class of the failure that ended it", null=True),
    text("evidence", "the line or reading that decided", null=True),
    ForeignKeyConstraint(["sweep_id", "cell_hash"], ["cells.sweep_id", "cells.hash"], ondelete="CASCADE"),
    UniqueConstraint("sweep_id", "cell_hash", "host", "parallel", "visit"),
    CheckConstraint(one_of("state", JobState), name="state_known"),
    CheckConstraint(
        "(state = 'running') = (fence IS NOT NULL) AND (state = 'running') = (lease_expires_at IS NOT NULL)",
        name="running_has_fence_and_lease",
    ),
    CheckConstraint(f"({one_of('state', _FINAL_STATES)}) = (finished_at IS NOT NULL)", name="final_is_finished"),
    CheckConstraint("(state IN ('failed', 'unsupported')) = (failure IS NOT NULL)", name="failure_only_when_failed"),
    CheckConstraint(one_of("failure", Failure), name="failure_known"),
    CheckConstraint("state <> 'queued' OR cancel_requested_at IS NULL", name="queued_is_cancelled_at_once"),
    CheckConstraint("yield_requested_at IS NULL OR state = 'running'", name="only_running_yields"),
    CheckConstraint("not_before IS NULL OR state = 'queued'", name="only_queued_waits"),
    CheckConstraint("woken_at IS NULL OR state IN ('queued', 'running')", name="final_wakes_nobody"),
    CheckConstraint("visit >= 1", name="visit_counts_from_one"),
    CheckConstraint("tries >= 0 AND tp > 0 AND ep > 0 AND pp > 0 AND dp > 0", name="counts_positive"),
    # The backstop of the host's kernel lock: Postgres itself refuses a second runner.
    Index("jobs_one_running_per_host", "host", unique=True, postgresql_where=sql("state = 'running'")),
    # The dispatcher probes it once a host and sweep, whatever the length of the queue.
    Index(
        "jobs_queue_order",
        "host",
        "sweep_id",
        sql("priority DESC"),
        "position",
        postgresql_where=sql("state = 'queued'"),
    ),
    # Whether a sweep is done, for the sweeps that wait for it.
    Index("jobs_unfinished", "sweep_id", "position", postgresql_where=sql("state IN ('queued', 'running')")),
    Index("jobs_woken", "host", postgresql_where=sql("woken_at IS NOT NULL")),
    comment="One visit of a cell on a host: the unit of queueing.",
)
