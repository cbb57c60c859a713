"""OpenAI's streams for the server of known timing: what other load clients speak who do not know `/generate`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

PATHS = ("/v1/completions", "/v1/chat/completions")
MODEL = "known-timing"


def models() -> dict[str, Any]:
    """What `GET /v1/models` says."""
    return {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "tests"}]}


def asked_tokens(asked: Mapping[str, Any]) -> int:
    """How many output tokens a request asks for."""
    return int(asked.get("max_completion_tokens") or asked.get("max_tokens") or 16)


def prompt_words(asked: Mapping[str, Any]) -> int:
    """The length of the prompt, in words."""
    prompt = asked.get("prompt")
    if prompt is None:
        return sum(len(str(message["content"]).split()) for message in asked["messages"])
    return len(prompt.split()) if isinstance(prompt, str) else len(prompt)


def events(path: str, asked: Mapping[str, Any], words: Sequence[str], counts: Sequence[int]) -> Iterator[bytes]:
    """One event for each of the cumulative `counts`, with the new text only; the usage with each, or once at the end,
    where it is asked for."""
    wanted = asked.get("stream_options") or {}
    prompt = prompt_words(asked)
    is_chat = path == PATHS[1]
    common = {
        "id": "cmpl-be599060a47345e8",
        "object": "chat.completion.chunk" if is_chat else "text_completion",
        "created": 1735689600,
        "model": asked.get("model", MODEL),
    }
    before = 0
    for count in counts:
        text = "".join(words[index % len(words)] for index in range(before, count))
        said: dict[str, Any] = {"delta": {"role": "assistant", "content": text}} if is_chat else {"text": text}
        finish = "length" if count == counts[-1] else None
        choice = {"index": 0, **said, "finish_reason": finish, "logprobs": None}
        usage = {"usage": _usage(prompt, count)} if wanted.get("continuous_usage_stats") else {}
        yield _encoded({**common, "choices": [choice], **usage})
        before = count
    if wanted.get("include_usage"):
        yield _encoded({**common, "choices": [], "usage": _usage(prompt, before)})


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _encoded(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
