"""Time per output token."""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.measurement import RequestRecord, Summary
from ddqueue.domain.metrics.metric import Metric
from ddqueue.domain.metrics.window import completed, summary_ms

METRIC = Metric(
    tag="tpot",
    unit="ms",
    formula="(last arrival - first arrival) / (tokens - tokens of the first chunk), one value a request",
    source="the usual definition, but for its N - 1, which is wrong where the first chunk holds several tokens",
)


def request_tpot_s(request: RequestRecord) -> float | None:
    """Seconds per token of one request after its first chunk; None when no later token came."""
    if not request.arrivals:
        return None
    (first, before), (last, after) = request.arrivals[0], request.arrivals[-1]
    return (last - first) / (after - before) if after > before else None


def tpot_ms(requests: Sequence[RequestRecord]) -> Summary | None:
    """The distribution over completed requests."""
    values = [request_tpot_s(request) for request in completed(requests)]
    return summary_ms([value for value in values if value is not None])
