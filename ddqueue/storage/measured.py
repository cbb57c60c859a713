"""A measurement as rows: the domain's values, with what Postgres cannot hold made into null and a named reason."""

from __future__ import annotations

from typing import Any

from ddqueue.domain.measurement import Invalid, Measurement, RequestRecord, Summary
from ddqueue.domain.metrics.tpot import request_tpot_s
from ddqueue.domain.telemetry import GpuWindow
from ddqueue.storage.storable import Cleaner
from ddqueue.storage.tables.measurements import QUANTITIES, SUMMARIES


def measurement_row(measurement: Measurement, cleaner: Cleaner) -> dict[str, Any]:
    """The columns of `measurements`, but for the attempt's own.

    A number that is not finite becomes null, and the row invalid: one bad field never loses the rest.
    """
    numbers: dict[str, float | None] = {
        "output_throughput_tok_s": measurement.output_throughput_tok_s,
        "total_throughput_tok_s": measurement.total_throughput_tok_s,
        "acceptance_length": measurement.acceptance_length,
        "step_time_ms": measurement.step_time_ms,
        "cached_share": measurement.cached_share,
        "energy_per_token_j": measurement.energy_per_token_j,
        "goodput_requests_s": measurement.goodput_requests_s,
        "goodput_output_tok_s": measurement.goodput_output_tok_s,
    }
    for name in SUMMARIES:
        summary: Summary | None = getattr(measurement, f"{name}_ms")
        for quantity in QUANTITIES:
            numbers[f"{name}_{quantity}_ms"] = getattr(summary, quantity) if summary else None
    if not measurement.verifies:
        # A length without a single verify behind it was not measured.
        numbers["acceptance_length"] = None
    finite = {name: cleaner.number(value, name) for name, value in numbers.items()}
    reasons = list(measurement.reasons)
    if finite != numbers and Invalid.NOT_FINITE not in reasons:
        reasons.append(Invalid.NOT_FINITE)
    if not reasons and not (finite["output_throughput_tok_s"] or 0) > 0:
        reasons.append(Invalid.NO_TOKENS)
    histogram = measurement.draft_histogram
    return {
        "concurrency": measurement.point.concurrency,
        "context_tokens": measurement.point.context,
        "output_tokens_asked": measurement.point.output,
        "repeat": measurement.repeat,
        "started_at": measurement.started_at,
        "wall_s": measurement.wall_s,
        "requests_completed": measurement.requests_completed,
        "requests_failed": measurement.requests_failed,
        "prompt_tokens": measurement.prompt_tokens,
        "output_tokens": measurement.output_tokens,
        **finite,
        "verifies": measurement.verifies,
        "correct_drafts": measurement.correct_drafts,
        "draft_histogram": None if histogram is None else list(histogram),
        "valid": not reasons,
        "reasons": [reason.value for reason in reasons],
        "marks": [mark.value for mark in measurement.marks],
        "client": cleaner.json(measurement.client, "client"),
    }


def sample_rows(measurement: Measurement, cleaner: Cleaner) -> list[dict[str, Any]]:
    """The rows of `samples`, but for the measurement's id."""
    return [_sample_row(request, cleaner) for request in measurement.requests]


def _sample_row(request: RequestRecord, cleaner: Cleaner) -> dict[str, Any]:
    where = f"requests[{request.index}]"
    ttft_ms = (request.arrivals[0][0] - request.started_s) * 1000 if request.arrivals else None
    tpot_s = request_tpot_s(request)
    return {
        "request_index": request.index,
        "started_s": request.started_s,
        "finished_s": request.finished_s,
        "ttft_ms": cleaner.number(ttft_ms, f"{where}.ttft_ms"),
        "tpot_ms": cleaner.number(None if tpot_s is None else tpot_s * 1000, f"{where}.tpot_ms"),
        "prompt_tokens": request.prompt_tokens,
        "output_tokens": request.output_tokens,
        "cached_tokens": request.cached_tokens,
        "verifies": request.verifies,
        "correct_drafts": request.correct_drafts,
        "finish_reason": cleaner.optional_text(request.finish_reason, f"{where}.finish_reason"),
        "error": cleaner.optional_text(request.error, f"{where}.error"),
        "not_finite": [cleaner.text(name, f"{where}.not_finite") for name in request.not_finite],
    }


def telemetry_rows(measurement: Measurement, cleaner: Cleaner) -> list[dict[str, Any]]:
    """The rows of `telemetry`, but for the measurement's id."""
    return [_telemetry_row(window, cleaner) for window in measurement.gpus]


def _telemetry_row(window: GpuWindow, cleaner: Cleaner) -> dict[str, Any]:
    where = f"gpus[{window.index}]"
    numbers = {
        "power_mean_w": window.power_mean_w,
        "power_max_w": window.power_max_w,
        "energy_j": window.energy_j,
        "sm_clock_mean_mhz": window.sm_clock_mean_mhz,
        "sm_clock_min_mhz": window.sm_clock_min_mhz,
        "sm_clock_max_mhz": window.sm_clock_max_mhz,
        "memory_clock_mean_mhz": window.memory_clock_mean_mhz,
    }
    return {
        "gpu_index": window.index,
        "gpu_uuid": cleaner.text(window.uuid, f"{where}.uuid"),
        "readings": window.samples,
        **{name: cleaner.number(value, f"{where}.{name}") for name, value in numbers.items()},
        "temperature_max_c": window.temperature_max_c,
        "memory_used_max_mib": window.memory_used_max_mib,
        "throttle_reasons": [cleaner.text(reason, where) for reason in window.throttle_reasons],
    }
