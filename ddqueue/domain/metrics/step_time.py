"""Step time."""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.measurement import RequestRecord
from ddqueue.domain.metrics.itl import itl_ms
from ddqueue.domain.metrics.metric import Metric

METRIC = Metric(
    tag="step_time",
    unit="ms",
    formula="acceptance length / per-request decode rate = acceptance length * mean inter-token latency",
    source="tokens per second = acceptance length / step time, solved for what the box is to blame for",
)


def step_time_ms(requests: Sequence[RequestRecord], acceptance: float | None) -> float | None:
    """The time one draft-and-verify step takes, prefill left out.

    `acceptance` is the acceptance length; 1 for a baseline, whose steps yield one token each. None when it is, or when
    no token came after a first chunk.
    """
    latency = itl_ms(requests)
    return None if acceptance is None or latency is None else acceptance * latency.mean
