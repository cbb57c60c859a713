"""Goodput under stated limits, in requests."""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.latency_limits import LatencyLimits
from ddqueue.domain.measurement import RequestRecord
from ddqueue.domain.metrics.metric import Metric
from ddqueue.domain.metrics.tpot import request_tpot_s
from ddqueue.domain.metrics.window import completed, wall_s

METRIC = Metric(
    tag="goodput",
    unit="requests/s",
    formula="completed requests within every limit / (last finish - first start)",
    source="Zhong et al., DistServe, OSDI 2024",
)


def keeps(request: RequestRecord, limits: LatencyLimits) -> bool:
    """Whether the request kept every limit that is set; a latency that is unknown keeps none."""
    first = request.arrivals[0][0] - request.started_s if request.arrivals else None
    seconds = (first, request_tpot_s(request), request.finished_s - request.started_s)
    asked = (limits.ttft_ms, limits.tpot_ms, limits.e2e_ms)
    return all(
        limit is None or (value is not None and value * 1000 <= limit)
        for value, limit in zip(seconds, asked, strict=True)
    )


def goodput_requests_s(requests: Sequence[RequestRecord], limits: LatencyLimits) -> float | None:
    """Zero when every request broke a limit; None when none completed, for then there is nothing to judge."""
    wall = wall_s(requests)
    if wall is None:
        return None
    return sum(keeps(request, limits) for request in completed(requests)) / wall
