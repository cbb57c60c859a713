"""Cached share of the prompts."""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.measurement import RequestRecord
from ddqueue.domain.metrics.metric import Metric
from ddqueue.domain.metrics.window import completed

METRIC = Metric(
    tag="cached_share",
    unit="fraction of the prompt tokens",
    formula="sum(cached tokens) / sum(prompt tokens)",
    source="cached_tokens and prompt_tokens of SGLang's meta_info",
)


def cached_share(requests: Sequence[RequestRecord]) -> float | None:
    """The part of the prompts that came from the prefix cache, 0..1, over the completed requests that report both."""
    reported = [
        (request.cached_tokens, request.prompt_tokens)
        for request in completed(requests)
        if request.cached_tokens is not None and request.prompt_tokens is not None
    ]
    prompts = sum(prompt for _, prompt in reported)
    return sum(cached for cached, _ in reported) / prompts if prompts else None
