"""The window that a repeat's requests span, and how a distribution over them is summarised."""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.measurement import RequestRecord, Summary
from ddqueue.domain.statistics import percentile


def completed(requests: Sequence[RequestRecord]) -> tuple[RequestRecord, ...]:
    """The requests that ended well; the time and tokens of the others stay out of every metric."""
    return tuple(request for request in requests if request.error is None)


def wall_s(requests: Sequence[RequestRecord]) -> float | None:
    """Last finish - first start of the completed requests, in seconds; None without any, or when no time passed."""
    done = completed(requests)
    if not done:
        return None
    wall = max(request.finished_s for request in done) - min(request.started_s for request in done)
    return wall if wall > 0 else None


def summary_ms(values_s: Sequence[float], weights: Sequence[int] | None = None) -> Summary | None:
    """Mean and percentiles of `values_s` (seconds) in milliseconds; a weight of k counts a value k times."""
    if not values_s:
        return None
    counts = weights or [1] * len(values_s)
    mean = sum(value * count for value, count in zip(values_s, counts, strict=True)) / sum(counts)
    p50, p90, p99 = (percentile(values_s, fraction, counts) for fraction in (0.5, 0.9, 0.99))
    return Summary(mean * 1000, p50 * 1000, p90 * 1000, p99 * 1000)
