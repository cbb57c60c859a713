"""The bodies of answers, key for key as SGLang 0.5.15 gives them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ddqueue.sim.drafter import Drafter
from ddqueue.sim.serving import LiveRequest
from ddqueue.sim.words import END_OF_TEXT


def meta_info(request: LiveRequest, output_tokens: int, tag: str, drafter: Drafter | None) -> dict[str, Any]:
    """`meta_info` of one chunk of /generate, or of the whole answer."""
    generation = request.generation
    final = request.ended(output_tokens)
    meta: dict[str, Any] = {
        "id": generation.rid,
        "finish_reason": finish_reason(request) if final else None,
        "prompt_tokens": generation.prompt_tokens,
        "weight_version": tag,
        "num_retractions": 0,
        "queue_time": 0.0,
        "reasoning_tokens": 0,
        "completion_tokens": output_tokens,
        "cached_tokens": generation.cached_tokens,
        "cached_tokens_details": {"device": generation.cached_tokens, "host": 0} if generation.cached_tokens else None,
        "dp_rank": None,
    }
    if final:
        meta |= _totals(request, drafter)
    return meta


def finish_reason(request: LiveRequest) -> dict[str, Any]:
    """How a finished answer ended."""
    if request.generation.aborted:
        return {"type": "abort", "message": "Aborted"}
    if request.stops_by_itself:
        return {"type": "stop", "matched": END_OF_TEXT}
    return {"type": "length", "length": request.generation.output_limit}


def _totals(request: LiveRequest, drafter: Drafter | None) -> dict[str, Any]:
    finished_ts = request.finished_ts or time.time()
    e2e_s = finished_ts - request.received_ts
    generation = request.generation
    totals: dict[str, Any] = {"e2e_latency": e2e_s}
    if drafter is not None and generation.verifies:
        proposed = generation.verifies * drafter.proposed_tokens
        totals |= {
            "spec_accept_rate": generation.correct_drafts / proposed,
            "spec_accept_length": generation.output_tokens / generation.verifies,
            "spec_num_correct_drafts": generation.correct_drafts,
            "spec_num_proposed_drafts": proposed,
            "spec_verify_ct": generation.verifies,
            "spec_accepted_drafts": generation.correct_drafts,
            "spec_proposed_drafts": proposed,
            "spec_correct_drafts_histogram": list(generation.histogram),
            "spec_accept_histogram": list(generation.histogram),
        }
    return totals | {
        "request_received_ts": request.received_ts,
        "api_server_dispatch_finish_ts": request.received_ts,
        "request_finished_ts": finished_ts,
        "decode_throughput": generation.output_tokens / max(e2e_s, 1e-6),
    }


def chat_chunk(
    rid: str, created: int, model: str, delta: Mapping[str, Any] | None, reason: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """One streamed chunk of a chat answer; `delta` none makes the one without choices, which carries the usage."""
    choices = []
    if delta is not None:
        choices.append(
            {
                "index": 0,
                "delta": {"reasoning_content": None, **delta},
                "logprobs": None,
                "finish_reason": reason["type"] if reason else None,
                "matched_stop": reason.get("matched") if reason else None,
            }
        )
    return {"id": rid, "object": "chat.completion.chunk", "created": created, "model": model, "choices": choices}


def chat_answer(
    request: LiveRequest, model: str, content: str, tag: str, reasoning: str = "", reasoning_tokens: int = 0
) -> dict[str, Any]:
    """A whole chat answer; empty content or reasoning is null."""
    reason = finish_reason(request)
    message = {
        "role": "assistant",
        "content": content or None,
        "reasoning_content": reasoning or None,
        "tool_calls": None,
    }
    return {
        "id": request.generation.rid,
        "object": "chat.completion",
        "created": int(request.received_ts),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": reason["type"],
                "matched_stop": reason.get("matched"),
            }
        ],
        "usage": usage(request, reasoning_tokens),
        "metadata": {"weight_version": tag},
    }


def usage(request: LiveRequest, reasoning_tokens: int = 0) -> dict[str, Any]:
    """OpenAI's count of tokens; without a reasoning parser no token counts as reasoning."""
    generation = request.generation
    return {
        "prompt_tokens": generation.prompt_tokens,
        "total_tokens": generation.prompt_tokens + generation.output_tokens,
        "completion_tokens": generation.output_tokens,
        "prompt_tokens_details": None,
        "reasoning_tokens": reasoning_tokens,
    }
