"""Time to first token."""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.measurement import RequestRecord, Summary
from ddqueue.domain.metrics.metric import Metric
from ddqueue.domain.metrics.window import completed, summary_ms

METRIC = Metric(
    tag="ttft",
    unit="ms",
    formula="arrival of the first chunk that brought a token - the request's start",
    source="the load client's clock, read when the bytes were read",
)


def ttft_ms(requests: Sequence[RequestRecord]) -> Summary | None:
    """The distribution over completed requests that brought a token; under speculation the first chunk may hold
    several."""
    return summary_ms(
        [request.arrivals[0][0] - request.started_s for request in completed(requests) if request.arrivals]
    )
