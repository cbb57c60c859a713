"""What the events of one streamed answer say: tokens so far, speculation, the server's tag, errors.

Understands SGLang's `POST /generate` stream, and the `usage` of OpenAI-like streams. Field names differ between builds;
each is looked for under every name it has been seen with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ddqueue.domain.measurement import RequestRecord
from ddqueue.measure.errors import NUL_SHOWN, ClosedEarly, MalformedAnswer, ServerError, described
from ddqueue.measure.plain_events import plain_count

DONE = b"[DONE]"
_ERROR = b'{"error"'

CORRECT_DRAFTS_KEYS = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
HISTOGRAM_KEYS = ("spec_correct_drafts_histogram", "spec_accept_histogram")

MOST = 999_999_999
"""No count of one answer is larger; Postgres and arithmetic have limits that a server must not be able to reach."""

_LONGEST_TEXT = 200
"""Of a tag or a finish reason, which are words."""

_DEEPEST_HISTOGRAM = 4096

_UNUSED_DRAFTS = 1024
"""Accepted drafts beyond an answer's tokens: those of a last verify that went past the forced length."""


class AnswerReader:
    """Takes payloads in order, each with the time its bytes were read; `record` sums them up.

    Token counts are cumulative. Only the last payload that reports any is parsed as a whole: a payload holds all text
    so far, so that parsing each would cost time quadratic in the answer's length.
    """

    def __init__(self) -> None:
        self.arrivals: list[tuple[float, int]] = []
        self.chunks = 0
        self.done = False
        self.error: Exception | None = None
        self._over = False
        """Whether `[DONE]` or an error came: nothing after either counts."""
        self._tokens: int | None = None
        self._counted = 0
        """Tokens up to the last arrival, at `_counted_at`."""
        self._counted_at = -1.0
        self._last = b""
        self._not_finite: set[str] = set()

    def take(self, read_at: float, payload: bytes) -> None:
        """Note one payload."""
        tokens = None if self._over else _count_of_object(payload)
        if tokens is not None:
            self.take_counted(read_at, tokens, payload)
        else:
            self._take_other(read_at, payload)

    def take_counted(self, read_at: float, tokens: int, event: bytes, events: int = 1) -> None:
        """Note `events` that one read brought. `event` is the last of them, with any framing around it, and `tokens`
        what it counts; the hot path."""
        if self._over:
            return
        self.chunks += events
        self._last = event
        self._tokens = tokens
        if tokens > self._counted:
            # What one read brought arrived together, however many events it held.
            if read_at == self._counted_at:
                self.arrivals.pop()
            self.arrivals.append((read_at, tokens))
            self._counted, self._counted_at = tokens, read_at

    def ended(self) -> None:
        """The answer is over: without `[DONE]` it was cut off."""
        if not self.done and self.error is None:
            self.error = ClosedEarly(f"the answer ended after {self.chunks} events without [DONE]")

    def record(
        self, index: int, started: float, finished: float, origin: float, error: BaseException | None
    ) -> RequestRecord:
        """Everything known of the request. Times become seconds since `origin`; `error` is what the connection met,
        and what the server itself reported goes before it."""
        try:
            event = json.loads(self._last[self._last.find(b"{") : self._last.rfind(b"}") + 1] or b"{}")
        except (ValueError, RecursionError) as fault:
            self.error = self.error or MalformedAnswer(f"the last event is not JSON: {fault}")
            event = {}
        event = _mapping(event)
        meta = _mapping(event.get("meta_info")) or _mapping(event.get("usage"))
        reason = meta.get("finish_reason")
        if isinstance(reason, Mapping) and reason.get("type") == "abort" and self.error is None:
            self.error = ServerError(f"aborted: {_said(reason.get('message') or reason)}")
        # Each verify gives a token and each accepted draft is one, so that no more of either can have been.
        most = min(MOST, (self._tokens or 0) + _UNUSED_DRAFTS)
        histogram = self._histogram(meta, most)
        correct = self._count(meta, *CORRECT_DRAFTS_KEYS, most=most)
        if correct is None and histogram is not None:
            correct = sum(accepted * verifies for accepted, verifies in enumerate(histogram))
        final = self.error or error
        return RequestRecord(
            index=index,
            started_s=started - origin,
            finished_s=finished - origin,
            prompt_tokens=self._count(meta, "prompt_tokens"),
            output_tokens=self._tokens,
            cached_tokens=self._count(meta, "cached_tokens"),
            arrivals=tuple((read_at - origin, tokens) for read_at, tokens in self.arrivals),
            verifies=self._count(meta, "spec_verify_ct", most=most),
            correct_drafts=correct,
            draft_histogram=histogram,
            finish_reason=_text(reason.get("type") if isinstance(reason, Mapping) else reason),
            tag=_text(meta.get("weight_version")),
            error=None if final is None else described(final),
            not_finite=tuple(sorted(self._not_finite)),
        )

    def _take_other(self, read_at: float, payload: bytes) -> None:
        """The long way, for payloads without a plain count: the end, errors, counts that are no integers, text alone.

        Nothing after the end or an error counts; the first error stays.
        """
        if payload == DONE:
            self.done = self._over = True
        if self._over:
            return
        try:
            tokens = self._count_of(payload)
        except (MalformedAnswer, ServerError) as error:
            self.error, self._over = error, True
            tokens = None
        if tokens is not None:
            self.take_counted(read_at, tokens, payload)
        else:
            self.chunks += 1

    def _count_of(self, payload: bytes) -> int | None:
        """Raises ServerError when that is what the payload reports, MalformedAnswer when it is no JSON object."""
        number = self.chunks + 1
        try:
            event = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise MalformedAnswer(f"event {number} is not JSON: {error}") from None
        if not isinstance(event, Mapping):
            raise MalformedAnswer(f"event {number} is not an object: {payload[:80]!r}")
        if event.get("error") is not None:
            detail = event["error"]
            message = detail.get("message") if isinstance(detail, Mapping) else None
            raise ServerError(_said(message or detail))
        meta = _mapping(event.get("meta_info")) or _mapping(event.get("usage"))
        return self._count(meta, "completion_tokens")

    def _count(self, meta: Mapping[str, Any], *keys: str, most: int = MOST) -> int | None:
        for key in keys:
            value = meta.get(key)
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                continue
            if not 0 <= value <= most:  # NaN is not either
                self._not_finite.add(key)
            elif value == int(value):
                return int(value)
        return None

    def _histogram(self, meta: Mapping[str, Any], most: int) -> tuple[int, ...] | None:
        for key in HISTOGRAM_KEYS:
            value = meta.get(key)
            if not isinstance(value, list) or not value or not all(type(entry) is int for entry in value):
                continue
            if len(value) <= _DEEPEST_HISTOGRAM and all(0 <= entry <= most for entry in value):
                return tuple(value)
            self._not_finite.add(key)
        return None


def _count_of_object(payload: bytes) -> int | None:
    """The count in a payload that is plainly an object with one, else None."""
    if payload[:1] != b"{" or payload[-1:] != b"}" or payload.startswith(_ERROR):
        return None
    return plain_count(payload)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return None if value is None else _said(value)[:_LONGEST_TEXT].replace("\0", NUL_SHOWN)


def _said(value: Any) -> str:
    """The text of what should be one; it may be of any size and depth."""
    try:
        return str(value)
    except RecursionError:
        return "something deeply nested"
