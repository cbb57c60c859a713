"""Break-even acceptance, and the margin above it."""

from __future__ import annotations

from ddqueue.domain.metrics.metric import Metric

METRIC = Metric(
    tag="break_even_acceptance",
    unit="tokens per verify",
    formula="step time with speculation / step time of the baseline on the same host, parallelism and point",
    source="speculation pays when acceptance / step time > 1 / baseline step time",
)


def break_even_acceptance(step_ms: float | None, baseline_step_ms: float | None) -> float | None:
    """The acceptance length at which speculation is exactly as fast as the baseline; None when a step is unknown."""
    if step_ms is None or not baseline_step_ms:
        return None
    return step_ms / baseline_step_ms


def margin(acceptance: float | None, break_even: float | None) -> float | None:
    """Acceptance length - break-even acceptance: speculation pays where it is positive."""
    return None if acceptance is None or break_even is None else acceptance - break_even
