"""One request and its answer, as it comes in.

The window is timed here, so the path of a read is short: note the time, keep the bytes. Framing is read when the bytes
look like an answer's end, or when too many wait; events and JSON are read after the window.
"""

from __future__ import annotations

from time import perf_counter

from ddqueue.domain.measurement import RequestRecord
from ddqueue.measure.answer import AnswerReader
from ddqueue.measure.errors import ClosedEarly, HttpError
from ddqueue.measure.http1 import ResponseReader
from ddqueue.measure.sse import EventReader

_LAST_CHUNK = b"0\r\n\r\n"


class Exchange:
    """Times are those of `perf_counter`; `finished` is None while the answer is coming in."""

    def __init__(self, index: int, pending_limit_bytes: int) -> None:
        self.index = index
        self.started = perf_counter()
        self.last_read = self.started
        self.finished: float | None = None
        self.began = False
        """Whether a byte of the body has come."""
        self.error: BaseException | None = None
        self._pending_limit_bytes = pending_limit_bytes
        self._reads: list[tuple[float, bytes]] = []
        self._reads_bytes = 0
        self._bodies: list[tuple[float, bytes]] = []
        self._bodies_bytes = 0
        self._response = ResponseReader()
        self._events = EventReader()
        self._answer = AnswerReader()
        self._error_body = b""

    def take(self, read_at: float, data: bytes) -> None:
        """Keep what was read; the hot path."""
        self.last_read = read_at
        self._reads.append((read_at, data))
        self._reads_bytes += len(data)
        if (
            data[-5:] == _LAST_CHUNK
            or len(data) < len(_LAST_CHUNK)
            or not self.began
            or not self._response.chunked
            or self._reads_bytes > self._pending_limit_bytes
        ):
            self.read_framing()

    def read_framing(self) -> None:
        """Take the framing off the reads that wait; ends the exchange when the answer is whole."""
        reads, self._reads, self._reads_bytes = self._reads, [], 0
        try:
            for read_at, data in reads:
                body = self._response.feed(data)
                if body:
                    self.began = True
                    self._bodies.append((read_at, body))
                    self._bodies_bytes += len(body)
                if self._response.complete:
                    self.end(read_at)
                    return
        except Exception as error:
            self.fail(error)
            return
        if self._bodies_bytes > self._pending_limit_bytes:
            self._read_events()

    def closed(self, error: BaseException | None) -> None:
        """The connection is gone."""
        self.read_framing()
        self._response.close()
        self._read_events()
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
        """Events of the answer, once `record` has read them."""
        return self._answer.chunks

    def record(self, window_start: float) -> RequestRecord:
        """Read what the window left unread, and sum it up."""
        self.read_framing()
        self._read_events()
        finished = self.finished if self.finished is not None else perf_counter()
        if self.error is None and self._response.status != 200:
            text = self._error_body.decode("utf-8", "replace")
            self.error = HttpError(f"{self._response.status} {text}")
        if self.error is None:
            self._answer.ended()
        return self._answer.record(self.index, self.started, finished, window_start, self.error)

    def _read_events(self) -> None:
        bodies, self._bodies, self._bodies_bytes = self._bodies, [], 0
        if self._response.status not in (None, 200):
            self._error_body += b"".join(body for _, body in bodies)
            return
        for read_at, body in bodies:
            for payload in self._events.feed(body):
                self._answer.take(read_at, payload)
