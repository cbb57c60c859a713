"""What one repeat of one point yields: the requests as the client saw them, and the numbers made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from ddqueue.domain.marks import Mark
from ddqueue.domain.sweep import Point
from ddqueue.domain.telemetry import GpuWindow


class Invalid(StrEnum):
    """A named reason why a measurement is not ranked."""

    REQUESTS_FAILED = "REQUESTS_FAILED"
    """At least one request of the window failed."""
    SHORT_OUTPUT = "SHORT_OUTPUT"
    """At least one answer was shorter than the forced length."""
    LONG_OUTPUT = "LONG_OUTPUT"
    """At least one answer claims more tokens than were asked for, so that its count proves nothing."""
    WRONG_SERVER = "WRONG_SERVER"
    """At least one answer did not carry this attempt's tag."""
    CACHED_PREFIX = "CACHED_PREFIX"
    """More prompt tokens came from the prefix cache than allowed."""
    NO_TOKENS = "NO_TOKENS"
    """No output token arrived, so there is no rate."""
    NOT_FINITE = "NOT_FINITE"
    """The server reported a number that is not finite, or a count that none can be; it is stored as null."""
    CLIENT_BOUND = "CLIENT_BOUND"
    """The load client, not the server, was the limit."""
    COMPILED = "COMPILED"
    """The server compiled kernels inside the window: a first use of the shape, not its speed."""


@dataclass(frozen=True)
class RequestRecord:
    """One request as the load client saw it; seconds count from the window's start.

    `arrivals` holds (seconds, output tokens so far) for each chunk that brought tokens. Speculation fields are null
    when the server reports none. `error` is the exception's type and text, or the server's own error. `not_finite`
    names the server's fields that held NaN, infinity, or a count below zero or beyond any; their values here are null.
    """

    index: int
    started_s: float
    finished_s: float
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    arrivals: tuple[tuple[float, int], ...] = ()
    verifies: int | None = None
    correct_drafts: int | None = None
    draft_histogram: tuple[int, ...] | None = None
    finish_reason: str | None = None
    tag: str | None = None
    error: str | None = None
    not_finite: tuple[str, ...] = ()


@dataclass(frozen=True)
class PointRun:
    """All requests of one repeat, and the window that holds them.

    `started_s` is the window's start in seconds of CLOCK_MONOTONIC, one clock for every process of the host. `client`
    says how the load client itself fared, so that a client that was the limit can be told from a slow server:
    `loop_lag_max_ms` (its longest pause), `run_queue_s` (ready, but without a CPU) and `run_queue_mean_ms` (the same
    for each turn), `in_flight_mean` (requests), `cpu_s` of the window, `peak_rss_mib`, `chunks`, `prompts` (their
    source). What the kernel does not tell is left out.
    """

    point: Point
    repeat: int
    started_at: datetime
    wall_s: float
    requests: tuple[RequestRecord, ...]
    client: Mapping[str, float | str] = field(default_factory=dict)
    started_s: float | None = None


@dataclass(frozen=True)
class Summary:
    """A distribution in milliseconds."""

    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True)
class Measurement:
    """The numbers of one repeat; a number that could not be measured is None, never zero.

    Throughputs are tokens per second over the wall time of the window. Acceptance length is
    1 + sum(correct drafts) / sum(verifies) over all requests; `draft_histogram[k]` counts the verifies that accepted
    k drafts. Step time is acceptance length / per-request decode rate, in milliseconds.
    """

    point: Point
    repeat: int
    started_at: datetime
    wall_s: float
    requests_completed: int
    requests_failed: int
    prompt_tokens: int
    output_tokens: int
    cached_share: float | None
    output_throughput_tok_s: float | None
    total_throughput_tok_s: float | None
    ttft_ms: Summary | None
    itl_ms: Summary | None
    e2e_ms: Summary | None
    acceptance_length: float | None
    verifies: int | None
    correct_drafts: int | None
    draft_histogram: tuple[int, ...] | None
    step_time_ms: float | None
    tpot_ms: Summary | None = None
    reasons: tuple[Invalid, ...] = ()
    marks: tuple[Mark, ...] = ()
    gpus: tuple[GpuWindow, ...] = ()
    """What each GPU did over exactly this window; empty where nobody watched."""
    energy_per_token_j: float | None = None
    goodput_requests_s: float | None = None
    """Requests per second that kept every limit of the sweep; None where it sets none."""
    goodput_output_tok_s: float | None = None
    """Output tokens per second of the same requests."""
    client: Mapping[str, float | str] = field(default_factory=dict)
    """How the load client fared: see PointRun."""
    requests: tuple[RequestRecord, ...] = ()

    @property
    def valid(self) -> bool:
        return not self.reasons
