"""Measurements: one row a repeat of a point, its requests as samples, and what the GPUs did meanwhile."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Integer,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from ddqueue.domain.marks import Mark
from ddqueue.domain.measurement import Invalid
from ddqueue.storage.tables.base import identity, metadata, moment, number, text

SUMMARIES = {
    "ttft": "time to first token",
    "itl": "time per output token after the first chunk",
    "tpot": "time per output token after the first chunk, one value a request",
    "e2e": "whole request",
}
QUANTITIES = ("mean", "p50", "p90", "p99")


def _summary(name: str, meaning: str) -> list[Column[Any]]:
    return [
        number(f"{name}_{quantity}_ms", f"{meaning}, {quantity} over requests, milliseconds") for quantity in QUANTITIES
    ]


_RATES = [
    number("output_throughput_tok_s", "output tokens / wall time of the window, tokens per second"),
    number("total_throughput_tok_s", "prompt and output tokens / wall time, tokens per second"),
    *(column for name, meaning in SUMMARIES.items() for column in _summary(name, meaning)),
    number("acceptance_length", "1 + sum(correct drafts) / sum(verifies), tokens per verify"),
    number("step_time_ms", "acceptance length / per-request decode rate, milliseconds"),
    number("cached_share", "share of prompt tokens that came from the prefix cache, 0 to 1"),
    number("energy_per_token_j", "energy of all GPUs over the window / output tokens, joules"),
    number(
        "goodput_requests_s",
        "requests within every limit of sweeps.measure -> goodput / wall time, requests per second",
    ),
    number("goodput_output_tok_s", "output tokens of the same requests / wall time, tokens per second"),
]
_NUMBERS = ", ".join(["wall_s", *(column.name for column in _RATES)])
_MARKS = ", ".join(repr(mark.value) for mark in Mark)
_REASONS = ", ".join(repr(reason.value) for reason in Invalid)

measurements = Table(
    "measurements",
    metadata,
    identity(),
    Column("attempt_id", ForeignKey("attempts.id", ondelete="CASCADE"), nullable=False),
    Column("concurrency", Integer, nullable=False, comment="requests in flight"),
    Column("context_tokens", Integer, nullable=False, comment="prompt tokens asked for per request"),
    Column("output_tokens_asked", Integer, nullable=False, comment="output tokens forced per request"),
    Column("repeat", Integer, nullable=False, comment="number of the repeat of this point in this attempt"),
    moment("started_at"),
    number("wall_s", "length of the window, seconds"),
    Column("requests_completed", Integer),
    Column("requests_failed", Integer),
    Column("prompt_tokens", BigInteger, comment="sum over completed requests"),
    Column("output_tokens", BigInteger, comment="sum over completed requests"),
    *_RATES,
    Column("verifies", BigInteger, comment="verify steps of the target, sum over requests"),
    Column("correct_drafts", BigInteger, comment="draft tokens accepted, sum over requests"),
    Column("draft_histogram", ARRAY(BigInteger), comment="element k + 1: verifies that accepted k drafts"),
    Column("valid", Boolean, nullable=False, comment="only valid rows are ranked"),
    Column("reasons", ARRAY(Text), nullable=False, comment="why it is not valid; empty when it is"),
    Column("marks", ARRAY(Text), nullable=False, comment="what to know of a row that is valid all the same"),
    Column("client", JSONB, nullable=False, comment="how the load client fared: lag, CPU seconds, requests in flight"),
    Column("simulated", Boolean, nullable=False, comment="ran on software GPUs: not a measurement of hardware"),
    Column(
        "carried_from",
        ForeignKey("attempts.id", ondelete="SET NULL"),
        comment="the earlier attempt that measured it, on an equal server; null = this attempt did",
    ),
    UniqueConstraint(
        "attempt_id", "concurrency", "context_tokens", "output_tokens_asked", "repeat", name="measurements_once"
    ),
    CheckConstraint("valid = (cardinality(reasons) = 0)", name="invalid_has_reasons"),
    CheckConstraint(f"reasons <@ ARRAY[{_REASONS}]::text[]", name="reasons_known"),
    CheckConstraint(f"marks <@ ARRAY[{_MARKS}]::text[]", name="marks_known"),
    # What somebody measured by hand comes without them, and is not to be filled up with zeros.
    CheckConstraint(
        "num_nulls(started_at, wall_s, requests_completed, requests_failed, prompt_tokens, output_tokens) = 0"
        " OR 'IMPORTED' = ANY (marks)",
        name="only_imported_lacks_its_window",
    ),
    # Nothing that failed is stored as zero: a rate is positive or absent.
    CheckConstraint("NOT valid OR coalesce(output_throughput_tok_s > 0, false)", name="valid_has_throughput"),
    # greatest() sorts NaN above infinity, so that this refuses both; nulls are passed over.
    CheckConstraint(f"least({_NUMBERS}) >= 0 AND greatest({_NUMBERS}) < 'Infinity'", name="numbers_finite"),
    CheckConstraint("acceptance_length IS NULL OR verifies > 0", name="acceptance_has_verifies"),
    comment="One repeat of one point in one attempt. A number that could not be measured is null, never zero.",
)

samples = Table(
    "samples",
    metadata,
    Column("measurement_id", ForeignKey("measurements.id", ondelete="CASCADE"), primary_key=True),
    Column("request_index", Integer, primary_key=True, autoincrement=False),
    number("started_s", "seconds from the window's start", null=False),
    number("finished_s", "seconds from the window's start", null=False),
    number("ttft_ms", "time to first token, milliseconds"),
    number("tpot_ms", "time per output token after the first chunk, milliseconds"),
    Column("prompt_tokens", Integer, comment="as the server counted them"),
    Column("output_tokens", Integer, comment="as the server counted them"),
    Column("cached_tokens", Integer, comment="prompt tokens from the prefix cache"),
    Column("verifies", Integer),
    Column("correct_drafts", Integer),
    text("finish_reason", null=True),
    text("error", "exception type and text, or the server's own error", null=True),
    Column(
        "not_finite",
        ARRAY(Text),
        nullable=False,
        comment="fields in which the server reported NaN or infinity, stored as null",
    ),
    comment="One request as the load client saw it.",
)

_GPU_NUMBERS = [
    number("power_mean_w", "mean over time, watts"),
    number("power_max_w", "watts"),
    number("energy_j", "power integrated over the window, joules"),
    number("sm_clock_mean_mhz", "mean over time, MHz"),
    number("sm_clock_min_mhz", "MHz"),
    number("sm_clock_max_mhz", "MHz"),
    number("memory_clock_mean_mhz", "mean over time, MHz"),
]
_GPU_NUMBER_NAMES = ", ".join(column.name for column in _GPU_NUMBERS)

telemetry = Table(
    "telemetry",
    metadata,
    Column("measurement_id", ForeignKey("measurements.id", ondelete="CASCADE"), primary_key=True),
    Column("gpu_index", Integer, primary_key=True, autoincrement=False, comment="PCI order"),
    text("gpu_uuid"),
    Column("readings", Integer, nullable=False, comment="readings inside the window"),
    *_GPU_NUMBERS,
    Column("temperature_max_c", Integer, comment="degrees Celsius"),
    Column("memory_used_max_mib", Integer, comment="MiB"),
    Column("throttle_reasons", ARRAY(Text), nullable=False, comment="why the clocks were held down, in any reading"),
    CheckConstraint(
        f"least({_GPU_NUMBER_NAMES}) >= 0 AND greatest({_GPU_NUMBER_NAMES}) < 'Infinity'", name="numbers_finite"
    ),
    comment="One GPU over exactly one measured window. What the driver could not say is null.",
)
