"""Output throughput."""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.measurement import RequestRecord
from ddqueue.domain.metrics.metric import Metric
from ddqueue.domain.metrics.window import completed, wall_s

METRIC = Metric(
    tag="output_throughput",
    unit="tok/s",
    formula="sum(output tokens) / (last finish - first start)",
    source="completion_tokens of each answer; the load client's clock",
)


def output_throughput_tok_s(requests: Sequence[RequestRecord]) -> float | None:
    """Output tokens of all completed requests over the window's wall time.

    None without a token, without time, or when an answer did not say how long it was.
    """
    wall = wall_s(requests)
    counts = [request.output_tokens for request in completed(requests)]
    tokens = sum(count for count in counts if count is not None)
    if wall is None or tokens == 0 or None in counts:
        return None
    return tokens / wall
