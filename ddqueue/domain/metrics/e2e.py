"""End-to-end latency."""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.measurement import RequestRecord, Summary
from ddqueue.domain.metrics.metric import Metric
from ddqueue.domain.metrics.window import completed, summary_ms

METRIC = Metric(
    tag="e2e",
    unit="ms",
    formula="the request's finish - its start",
    source="the load client's clock; a request finishes with the read that completed its answer",
)


def e2e_ms(requests: Sequence[RequestRecord]) -> Summary | None:
    """The distribution over completed requests."""
    return summary_ms([request.finished_s - request.started_s for request in completed(requests)])
