"""A few of SGLang's Prometheus metrics, under their real names and labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ddqueue.sim.serving import Serving


def render(serving: Serving, settings: Mapping[str, Any]) -> str:
    """The text of GET /metrics."""
    scheduler = serving.scheduler
    verifies = sum(one.verifies for one in scheduler.running)
    correct = sum(one.correct_drafts for one in scheduler.running)
    gauges = {
        "max_total_num_tokens": ("Maximum total number of tokens in the KV cache pool.", scheduler.max_total_tokens),
        "num_running_reqs": ("The number of running requests.", len(scheduler.running)),
        "num_queue_reqs": ("The number of requests in the waiting queue.", len(scheduler.waiting)),
        "num_used_tokens": ("The number of used tokens.", scheduler.used_tokens),
        "gen_throughput": ("The generation throughput (token/s).", serving.throughput_tok_s),
        "spec_accept_length": (
            "The average acceptance length of speculative decoding.",
            1 + correct / verifies if verifies else 0.0,
        ),
    }
    counters = {
        "prompt_tokens_total": ("Number of prefill tokens processed.", serving.prompt_tokens),
        "generation_tokens_total": ("Number of generation tokens processed.", serving.output_tokens),
        "cached_tokens_total": ("Number of cached prompt tokens.", serving.cached_tokens),
        "num_requests_total": ("Number of requests processed.", serving.requests),
    }
    labels = f'engine_type="unified",model_name="{settings["served_model_name"]}"'
    rank = ',moe_ep_rank="0",pp_rank="0",tp_rank="0"'
    lines = []
    for kind, family, more in (("gauge", gauges, rank), ("counter", counters, "")):
        for name, (description, value) in family.items():
            lines += [
                f"# HELP sglang:{name} {description}",
                f"# TYPE sglang:{name} {kind}",
                f"sglang:{name}{{{labels}{more}}} {float(value)}",
            ]
    return "\n".join(lines) + "\n"
