"""Goodput under stated limits, in output tokens: what of the throughput reached users who did not wait too long."""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.latency_limits import LatencyLimits
from ddqueue.domain.measurement import RequestRecord
from ddqueue.domain.metrics.goodput import keeps
from ddqueue.domain.metrics.metric import Metric
from ddqueue.domain.metrics.window import completed, wall_s

METRIC = Metric(
    tag="goodput_output",
    unit="tok/s",
    formula="output tokens of completed requests within every limit / (last finish - first start)",
    source="the output throughput, of the requests that count for goodput (Zhong et al., DistServe, OSDI 2024)",
)


def goodput_output_tok_s(requests: Sequence[RequestRecord], limits: LatencyLimits) -> float | None:
    """Zero when every request broke a limit; None when none completed, or one that counts has no count of tokens."""
    wall = wall_s(requests)
    counts = [request.output_tokens for request in completed(requests) if keeps(request, limits)]
    known = [count for count in counts if count is not None]
    return None if wall is None or len(known) < len(counts) else sum(known) / wall
