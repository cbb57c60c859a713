"""Inter-token latency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ddqueue.domain.measurement import RequestRecord, Summary
from ddqueue.domain.metrics.metric import Metric
from ddqueue.domain.metrics.window import completed, summary_ms

METRIC = Metric(
    tag="itl",
    unit="ms",
    formula="a chunk of k tokens that came g after the one before it gives k intervals of g / k",
    source="SGLang bench_serving's gap / new tokens, which the first chunk is no part of",
)


def intervals(requests: Sequence[RequestRecord]) -> Iterator[tuple[float, int]]:
    """(seconds per token, tokens) for every chunk after the first of each completed request."""
    for request in completed(requests):
        for (earlier, before), (later, after) in pairwise(request.arrivals):
            if after > before:
                yield (later - earlier) / (after - before), after - before


def itl_ms(requests: Sequence[RequestRecord]) -> Summary | None:
    """The distribution over tokens, not over chunks: speculation brings several tokens in one chunk.

    The tokens of a first chunk have no chunk before them, so they give no interval. None when no later token came.
    """
    pairs = list(intervals(requests))
    return summary_ms([seconds for seconds, _ in pairs], [tokens for _, tokens in pairs])
