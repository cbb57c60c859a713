"""Acceptance length."""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.measurement import RequestRecord
from ddqueue.domain.metrics.metric import Metric
from ddqueue.domain.metrics.window import completed

METRIC = Metric(
    tag="acceptance_length",
    unit="tokens per verify",
    formula="1 + sum(correct drafts) / sum(verifies)",
    source="spec_num_correct_drafts and spec_verify_ct of SGLang's meta_info; sums, never a mean of means",
)


def verifies(requests: Sequence[RequestRecord]) -> int | None:
    """Verify passes of all completed requests; None when none reported any."""
    return _total([request.verifies for request in completed(requests)])


def correct_drafts(requests: Sequence[RequestRecord]) -> int | None:
    """Accepted draft tokens of all completed requests; None when none reported any."""
    return _total([request.correct_drafts for request in completed(requests)])


def acceptance_length(requests: Sequence[RequestRecord]) -> float | None:
    """Tokens one verify yields: the target's own and the drafts it accepted.

    SGLang's spec_accept_length counts the prefill's token too, so it lies a little higher. None when the server reports
    no speculation: absent is unknown, not 1.
    """
    reported = [
        (request.verifies, request.correct_drafts)
        for request in completed(requests)
        if request.verifies is not None and request.correct_drafts is not None
    ]
    passes = sum(count for count, _ in reported)
    return 1 + sum(correct for _, correct in reported) / passes if passes else None


def brings_no_benefit(length: float | None) -> bool:
    """Whether a drafter ran and not one of its drafts was accepted."""
    return length == 1.0


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
