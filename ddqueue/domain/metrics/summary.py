"""All numbers of one repeat, and the reasons why it must not be ranked."""

from __future__ import annotations

import math
from dataclasses import replace

from ddqueue.domain.latency_limits import LatencyLimits
from ddqueue.domain.measurement import Invalid, Measurement, PointRun, RequestRecord, Summary
from ddqueue.domain.metrics.acceptance_length import acceptance_length, correct_drafts, verifies
from ddqueue.domain.metrics.cached_share import cached_share
from ddqueue.domain.metrics.draft_histogram import draft_histogram
from ddqueue.domain.metrics.e2e import e2e_ms
from ddqueue.domain.metrics.goodput import goodput_requests_s
from ddqueue.domain.metrics.goodput_output import goodput_output_tok_s
from ddqueue.domain.metrics.itl import itl_ms
from ddqueue.domain.metrics.output_throughput import output_throughput_tok_s
from ddqueue.domain.metrics.step_time import step_time_ms
from ddqueue.domain.metrics.total_throughput import total_throughput_tok_s
from ddqueue.domain.metrics.tpot import tpot_ms
from ddqueue.domain.metrics.ttft import ttft_ms
from ddqueue.domain.metrics.window import completed, wall_s

CACHED_LIMIT = 0.05
"""The share of prompt tokens from the prefix cache above which prefill was not really measured."""

NUL_SHOWN = "\N{SYMBOL FOR NULL}"
"""Postgres refuses U+0000 in text; the symbol keeps the trace of it visible."""


def measure(
    run: PointRun,
    tag: str | None,
    cached_limit: float = CACHED_LIMIT,
    baseline: bool = False,
    limits: LatencyLimits | None = None,
) -> Measurement:
    """The measurement that `run` yields; what could not be measured is None, and the reasons say why.

    `tag` is what every answer must carry, None for a server that we did not start. `baseline` says that the server does
    not speculate: its acceptance stays None, and its step time is that of one token. Without `limits` there is no
    goodput. Failed requests are kept, but nothing is computed from them.
    """
    requests = tuple(_storable(request) for request in run.requests)
    done = completed(requests)
    acceptance = acceptance_length(requests)
    share = cached_share(requests)
    numbers = {
        "output": output_throughput_tok_s(requests),
        "total": total_throughput_tok_s(requests),
        "step": step_time_ms(requests, 1.0 if baseline else acceptance),
        "goodput": None if limits is None else goodput_requests_s(requests, limits),
        "goodput output": None if limits is None else goodput_output_tok_s(requests, limits),
    }
    distributions = {
        "ttft": ttft_ms(requests),
        "itl": itl_ms(requests),
        "tpot": tpot_ms(requests),
        "e2e": e2e_ms(requests),
    }
    finite_numbers = {name: value if _is_finite(value) else None for name, value in numbers.items()}
    finite_distributions = {name: value if _is_finite(value) else None for name, value in distributions.items()}
    not_finite = finite_numbers != numbers or finite_distributions != distributions
    return Measurement(
        point=run.point,
        repeat=run.repeat,
        started_at=run.started_at,
        wall_s=wall_s(requests) or run.wall_s,
        requests_completed=len(done),
        requests_failed=len(requests) - len(done),
        prompt_tokens=sum(request.prompt_tokens or 0 for request in done),
        output_tokens=sum(request.output_tokens or 0 for request in done),
        cached_share=share,
        output_throughput_tok_s=finite_numbers["output"],
        total_throughput_tok_s=finite_numbers["total"],
        ttft_ms=finite_distributions["ttft"],
        itl_ms=finite_distributions["itl"],
        tpot_ms=finite_distributions["tpot"],
        e2e_ms=finite_distributions["e2e"],
        acceptance_length=acceptance,
        verifies=verifies(requests),
        correct_drafts=correct_drafts(requests),
        draft_histogram=draft_histogram(requests),
        step_time_ms=finite_numbers["step"],
        goodput_requests_s=finite_numbers["goodput"],
        goodput_output_tok_s=finite_numbers["goodput output"],
        client=dict(run.client),
        reasons=_reasons(requests, run.point.output, tag, share is not None and share > cached_limit, not_finite),
        requests=requests,
    )


def _reasons(
    requests: tuple[RequestRecord, ...], output: int, tag: str | None, cached: bool, not_finite: bool
) -> tuple[Invalid, ...]:
    done = completed(requests)
    found = {
        Invalid.REQUESTS_FAILED: len(done) < len(requests),
        # An answer of unknown length has not been shown to be long enough.
        Invalid.SHORT_OUTPUT: any((request.output_tokens or 0) < output for request in done),
        Invalid.LONG_OUTPUT: any((request.output_tokens or 0) > output for request in done),
        Invalid.WRONG_SERVER: tag is not None and any(request.tag != tag for request in done),
        Invalid.CACHED_PREFIX: cached,
        Invalid.NO_TOKENS: not any(request.output_tokens for request in done),
        Invalid.NOT_FINITE: not_finite or any(request.not_finite for request in requests),
    }
    return tuple(reason for reason, holds in found.items() if holds)


def _is_finite(value: float | Summary | None) -> bool:
    if isinstance(value, Summary):
        return all(math.isfinite(part) for part in (value.mean, value.p50, value.p90, value.p99))
    return value is None or math.isfinite(value)


def _storable(request: RequestRecord) -> RequestRecord:
    return replace(
        request,
        finish_reason=_without_nul(request.finish_reason),
        tag=_without_nul(request.tag),
        error=_without_nul(request.error),
    )


def _without_nul(text: str | None) -> str | None:
    return None if text is None else text.replace("\0", NUL_SHOWN)
