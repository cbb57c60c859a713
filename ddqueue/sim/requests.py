"""Reading requests and writing answers: what every route needs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from aiohttp import web


class BadRequest(Exception):
    """Something about a request that SGLang answers with 400; the text is its message."""


async def read_object(request: web.Request) -> dict[str, Any]:
    """The body's JSON object. Raises BadRequest."""
    try:
        body = await request.json()
    except ValueError as error:
        raise BadRequest(f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    return body


def check_length(prompt_tokens: int, new_tokens: int, longest: int) -> None:
    """Raises BadRequest, in SGLang's words, for a prompt, or a prompt and its answer, longer than the context."""
    if prompt_tokens >= longest:
        raise BadRequest(
            f"The input ({prompt_tokens} tokens) is longer than the model's context length ({longest} tokens)."
        )
    if prompt_tokens + new_tokens > longest:
        raise BadRequest(
            f"Requested token count exceeds the model's maximum context length of {longest} tokens. You requested a"
            f" total of {prompt_tokens + new_tokens} tokens: {prompt_tokens} tokens from the input messages and"
            f" {new_tokens} tokens for the completion. Please reduce the number of tokens in the input messages or"
            " the completion to fit within the limit."
        )


def check_temperature(sampling: Mapping[str, Any]) -> None:
    """Raises BadRequest in SGLang's words for a temperature that makes no sense."""
    temperature = sampling.get("temperature", 1.0)
    if not isinstance(temperature, (int, float)) or not math.isfinite(temperature) or temperature < 0:
        raise BadRequest(f"temperature must be a non-negative finite number, got {temperature}.")


def positive_number(value: Any, name: str) -> int:
    """Raises BadRequest for anything but a whole number from 1 up."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadRequest(f"{name} must be at least 1, got {value}.")
    return value


async def open_stream(request: web.Request) -> web.StreamResponse:
    """Begin a response of server-sent events."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    return response


async def send_event(response: web.StreamResponse, value: Any) -> None:
    await response.write(b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n")


async def send_done(response: web.StreamResponse) -> None:
    await response.write(b"data: [DONE]\n\n")
