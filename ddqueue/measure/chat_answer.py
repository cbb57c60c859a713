"""What the events of one streamed chat answer say: text, reasoning, usage, how it ended.

SGLang's chunks carry no weight version (seen in 0.5.15; only an answer that is not streamed has
`metadata.weight_version`), so who answered must be proven by asking the server before and after; a build that does name
it in a chunk is heard.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ddqueue.measure.answer import MOST
from ddqueue.measure.errors import ClosedEarly, MalformedAnswer, ServerError
from ddqueue.measure.sse import EventReader

_DONE = b"[DONE]"


class OversizedAnswer(Exception):
    """The answer is larger than any that the token limit allows."""


class ChatAnswerReader:
    """Takes an answer's body in pieces, split anywhere; what came before an error stays readable.

    `content` and `reasoning` are None as long as nothing of theirs has come. Token counts are the server's own.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.finish_reason: str | None = None
        self.prompt_tokens: int | None = None
        self.output_tokens: int | None = None
        self.tag: str | None = None
        self._events = EventReader()
        self._chunks = 0
        self._done = False
        self._limit_bytes = limit_bytes
        self._read_bytes = 0
        self._content: list[str] = []
        self._reasoning: list[str] = []

    @property
    def content(self) -> str | None:
        return "".join(self._content) or None

    @property
    def reasoning(self) -> str | None:
        return "".join(self._reasoning) or None

    def feed(self, body: bytes) -> None:
        """Raises OversizedAnswer, MalformedAnswer, or ServerError when the server says that it failed."""
        self._read_bytes += len(body)
        if self._read_bytes > self._limit_bytes:
            raise OversizedAnswer(f"more than {self._limit_bytes} bytes")
        for payload in self._events.feed(body):
            if payload == _DONE:
                self._done = True
            elif not self._done:
                self._take(payload)

    def ended(self) -> None:
        """The body is over. Raises ClosedEarly unless the server said that the answer was whole."""
        if not self._done:
            raise ClosedEarly(f"the answer ended after {self._chunks} events without [DONE]")

    def _take(self, payload: bytes) -> None:
        self._chunks += 1
        try:
            event = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise MalformedAnswer(f"event {self._chunks} is not JSON: {error}") from error
        if not isinstance(event, dict):
            raise MalformedAnswer(f"event {self._chunks} is not an object: {payload[:80]!r}")
        if event.get("error") is not None:
            said = event["error"]
            raise ServerError(str(_mapping(said).get("message") or said))
        usage, metadata = _mapping(event.get("usage")), _mapping(event.get("metadata"))
        self.prompt_tokens = _count(usage.get("prompt_tokens"), self.prompt_tokens)
        self.output_tokens = _count(usage.get("completion_tokens"), self.output_tokens)
        self.tag = _text(metadata.get("weight_version")) or self.tag
        choices = event.get("choices")
        if isinstance(choices, list) and choices:
            self._choice(_mapping(choices[0]))

    def _choice(self, choice: Mapping[str, Any]) -> None:
        delta = _mapping(choice.get("delta"))
        for kept, name in ((self._content, "content"), (self._reasoning, "reasoning_content")):
            piece = _text(delta.get(name))
            if piece:
                kept.append(piece)
        self.finish_reason = _text(choice.get("finish_reason")) or self.finish_reason
        if self.finish_reason == "abort":
            raise ServerError("the server aborted the request")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any, otherwise: int | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else otherwise
