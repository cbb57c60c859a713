"""Every metric, for the documentation and the column heads."""

from __future__ import annotations

from ddqueue.domain.metrics import (
    acceptance_length,
    break_even,
    cached_share,
    draft_histogram,
    e2e,
    energy,
    goodput,
    goodput_output,
    itl,
    output_throughput,
    step_time,
    total_throughput,
    tpot,
    ttft,
)
from ddqueue.domain.metrics.metric import Metric

METRICS: tuple[Metric, ...] = (
    output_throughput.METRIC,
    total_throughput.METRIC,
    ttft.METRIC,
    itl.METRIC,
    tpot.METRIC,
    e2e.METRIC,
    acceptance_length.METRIC,
    draft_histogram.METRIC,
    step_time.METRIC,
    break_even.METRIC,
    cached_share.METRIC,
    energy.METRIC,
    goodput.METRIC,
    goodput_output.METRIC,
)
