"""One request and its answer, as it comes in.

Everything is read at once, in a bounded few microseconds for each read: whatever was put off would later hold up every
other stream just when many answers end together, and their last tokens would be stamped late.
"""

from __future__ import annotations

from time import perf_counter

from ddqueue.domain.measurement import RequestRecord
from ddqueue.measure.answer import AnswerReader
from ddqueue.measure.errors import ClosedEarly, HttpError, MalformedAnswer
from ddqueue.measure.http1 import ResponseReader
from ddqueue.measure.limits import MOST_EVENTS
from ddqueue.measure.plain_events import plain_count, plain_events
from ddqueue.measure.sse import LARGEST_EVENT_BYTES, EventReader

_HEAD_ENDS = b"\r\n\r\n"

ERROR_BODY_LIMIT_BYTES = 4096
"""What is kept of an answer that is an error."""


class Exchange:
    """Times are those of `perf_counter`; `finished` is None while the answer is coming in."""

    def __init__(self, index: int, most_events: int = MOST_EVENTS) -> None:
        self.index = index
        self._most_events = most_events
        self.started = perf_counter()
        self.last_read = self.started
        self.finished: float | None = None
        self.began = False
        """Whether a byte of the body has come."""
        self.error: BaseException | None = None
        self._between_events = False
        """Whether the next byte begins a chunk and an event, so that the short way needs no state but `_unfinished`."""
        self._unfinished = b""
        self._response = ResponseReader()
        self._events = EventReader()
        self._answer = AnswerReader()
        self._error_body = b""

    def take(self, read_at: float, data: bytes) -> None:
        """Read what came at `read_at`; the hot path. Ends the exchange when the answer is whole."""
        self.last_read = read_at
        if self._between_events:
            if self._unfinished:
                data, self._unfinished = self._unfinished + data, b""
            events, begin, end, more = plain_events(data)
            if events:
                tokens = plain_count(data, begin, end)
                if tokens is None:
                    self._take_in_parts(read_at, data)
                    return
                self.began = True
                self._answer.take_counted(read_at, tokens, data[begin:end], events)
                if self._answer.chunks > self._most_events:
                    self._fail_as_endless()
                    return
            if more:
                self._unfinished = data[end:]
                if len(self._unfinished) > LARGEST_EVENT_BYTES:
                    self.fail(MalformedAnswer(f"an event is larger than {LARGEST_EVENT_BYTES // 2**20} MiB"))
                return
            if end == len(data):
                return
            data = data[end:]
        self._take_in_parts(read_at, data)

    def closed(self, error: BaseException | None) -> None:
        """The connection is gone."""
        self._take_in_parts(self.last_read, self._unfinished)
        self._response.close()
        if self._response.complete or self._answer.done:
            self.end(self.last_read)
        else:
            self.fail(error or ClosedEarly(f"the connection closed after {self._answer.chunks} events without [DONE]"))

    def end(self, at: float) -> None:
        """The answer is whole, as far as HTTP goes."""
        if self.finished is None:
            self.finished = at

    def fail(self, error: BaseException) -> None:
        """The request failed now; the first reason stays."""
        if self.finished is None:
            self.error = error
            self.finished = perf_counter()

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another request."""
        return self.error is None and self._response.complete and self._response.keep_alive

    @property
    def chunks(self) -> int:
        """Events of the answer so far."""
        return self._answer.chunks

    def _fail_as_endless(self) -> None:
        self.fail(MalformedAnswer(f"more than {self._most_events} events: an answer without an end"))

    def record(self, window_start: float) -> RequestRecord:
        """Sum up what came; seconds count from `window_start`."""
        finished = self.finished if self.finished is not None else perf_counter()
        if self.error is None and self._response.status != 200:
            self.error = self._http_error()
        if self.error is None:
            self._answer.ended()
        return self._answer.record(self.index, self.started, finished, window_start, self.error)

    def _http_error(self) -> HttpError:
        return HttpError(f"{self._response.status} {self._error_body.decode('utf-8', 'replace')}")

    def _take_in_parts(self, read_at: float, data: bytes) -> None:
        """The long way, for all else: the head, an answer without chunks, errors, the answer's end."""
        response = self._response
        head_end = data.find(_HEAD_ENDS) + len(_HEAD_ENDS)
        if response.status is None and len(_HEAD_ENDS) <= head_end < len(data):
            # What follows the head begins with a whole chunk, so that the short way can take it.
            self._take_in_parts(read_at, data[:head_end])
            data = data[head_end:]
            if response.status is not None:
                self.take(read_at, data)
            if response.status is not None or self.finished is not None:
                return
        try:
            body = response.feed(data)
            payloads = self._events.feed(body) if response.status == 200 else []
        except Exception as error:
            self.fail(error)
            return
        if body:
            self.began = True
        for payload in payloads:
            self._answer.take(read_at, payload)
            if self._answer.chunks > self._most_events:
                self._fail_as_endless()
                return
        if body and response.status != 200:
            self._error_body += body
            if len(self._error_body) > ERROR_BODY_LIMIT_BYTES:
                # It is an error however it goes on, and may never end.
                self._error_body = self._error_body[:ERROR_BODY_LIMIT_BYTES]
                self.fail(self._http_error())
                return
        self._between_events = response.status == 200 and response.between_chunks and self._events.between_events
        if response.complete:
            self.end(read_at)
