"""Total throughput."""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.measurement import RequestRecord
from ddqueue.domain.metrics.metric import Metric
from ddqueue.domain.metrics.output_throughput import output_throughput_tok_s
from ddqueue.domain.metrics.window import completed, wall_s

METRIC = Metric(
    tag="total_throughput",
    unit="tok/s",
    formula="(sum(prompt tokens) + sum(output tokens)) / (last finish - first start)",
    source="prompt_tokens and completion_tokens of each answer; the load client's clock",
)


def total_throughput_tok_s(requests: Sequence[RequestRecord]) -> float | None:
    """Prompt and output tokens over the window's wall time; None where the output throughput is, or a prompt's length
    is unknown. Cached prompt tokens count."""
    output, wall = output_throughput_tok_s(requests), wall_s(requests)
    prompts = [request.prompt_tokens for request in completed(requests)]
    if output is None or wall is None or None in prompts:
        return None
    return output + sum(count for count in prompts if count is not None) / wall
