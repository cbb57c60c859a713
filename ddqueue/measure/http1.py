"""As much of HTTP/1.1 as a load client needs: writing a request, and taking an answer's framing off its body.

Written here because general clients cost more for each chunk that arrives, and the client must never be the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from ddqueue.errors import UsageError
from ddqueue.measure.errors import MalformedAnswer

HEAD_LIMIT_BYTES = 64 * 1024

CHUNK_LINE_LIMIT_BYTES = 4096
"""Of a line between two chunks: a size, which is a few digits, or a trailer's header."""

_LENGTH_DIGITS = 15
"""More than any answer has: Python refuses to read thousands of digits."""


@dataclass(frozen=True)
class Address:
    """Where a server listens; `base` is the path in front of every endpoint, without a slash at its end."""

    host: str
    port: int
    base: str = ""

    @classmethod
    def of(cls, url: str) -> Address:
        """Raises UsageError unless `url` is http://HOST[:PORT][/BASE]."""
        parts = urlsplit(url)
        try:
            port = parts.port or 80
        except ValueError:
            port = 0
        if parts.scheme != "http" or not parts.hostname or not port:
            raise UsageError(f"{url!r} is not a server's address; write http://HOST:PORT")
        return cls(parts.hostname, port, parts.path.rstrip("/"))

    def post(self, path: str, body: bytes) -> bytes:
        """The bytes of a POST of JSON to `path`, on a connection that is kept open."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        head = (
            f"POST {self.base}{path} HTTP/1.1\r\nHost: {host}:{self.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode("latin-1") + body


class ResponseReader:
    """Reads one answer, however its bytes were split.

    `feed` takes what was read and returns the body bytes in it. `status` is None until the head is whole; `complete`
    turns true with the last byte of the body. Framing: chunked, by content length, or until the connection closes.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        self.complete = False
        self.chunked = False
        self.keep_alive = True
        self._buffer = b""
        self._left: int | None = None
        """Body bytes still to come: of the current chunk when chunked, of the whole body otherwise; None = unknown."""
        self._in_trailer = False

    @property
    def between_chunks(self) -> bool:
        """Whether the next byte begins a chunk."""
        return self.chunked and not (self._buffer or self.complete or self._in_trailer) and self._left is None

    def feed(self, data: bytes) -> bytes:
        """Raises MalformedAnswer when the bytes cannot be HTTP/1.1."""
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        if self.status is None:
            rest = self._read_head(data)
            if rest is None:
                return b""
            data = rest
        if self.complete:
            return b""
        return self._read_chunks(data) if self.chunked else self._read_plain(data)

    def close(self) -> None:
        """The connection closed: that completes a body which has neither a length nor chunks."""
        if self.status is not None and not self.chunked and self._left is None:
            self.complete = True

    def _read_head(self, data: bytes) -> bytes | None:
        while True:
            head, separator, rest = data.partition(b"\r\n\r\n")
            if not separator:
                if len(data) > HEAD_LIMIT_BYTES or not data.startswith(b"HTTP/"[: len(data)]):
                    raise MalformedAnswer(f"not an HTTP answer: {data[:80]!r}")
                self._buffer = data
                return None
            lines = head.decode("latin-1").split("\r\n")
            version, _, status = lines[0].partition(" ")
            if not version.startswith("HTTP/1.") or not _is_number(status[:3]):
                raise MalformedAnswer(f"not an HTTP answer: {lines[0][:80]!r}")
            if not status.startswith("1"):
                break
            # An interim answer (100 Continue): the real one follows it.
            data = rest
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        self.status = int(status[:3])
        self.chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        self.keep_alive = version != "HTTP/1.0" and headers.get("connection", "").lower() != "close"
        if not self.chunked:
            length = headers.get("content-length", "")
            self._left = int(length) if _is_number(length) else None
            self.complete = self._left == 0 or self.status in (204, 304)
        return rest

    def _read_plain(self, data: bytes) -> bytes:
        if self._left is None:
            return data
        body = data[: self._left]
        self._left -= len(body)
        self.complete = self._left == 0
        return body

    def _read_chunks(self, data: bytes) -> bytes:
        pieces: list[bytes] = []
        at = 0
        while not self.complete:
            if self._left is None:
                line_end = data.find(b"\r\n", at)
                if line_end < 0:
                    if len(data) - at > CHUNK_LINE_LIMIT_BYTES:
                        raise MalformedAnswer("a line between two chunks does not end")
                    break
                if self._in_trailer:
                    self.complete = line_end == at
                else:
                    self._left = self._chunk_size(data[at:line_end])
                at = line_end + 2
                if self._left == 0:
                    self._left, self._in_trailer = None, True
                continue
            # A chunk's bytes are given on as they come; the two that end it only when both are there.
            if self._left > 0:
                piece = data[at : at + self._left]
                if not piece:
                    break
                pieces.append(piece)
                self._left -= len(piece)
                at += len(piece)
                if self._left > 0:
                    break
            if len(data) - at < 2:
                break
            if data[at : at + 2] != b"\r\n":
                raise MalformedAnswer("a chunk is longer than it says")
            at += 2
            self._left = None
        self._buffer = data[at:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    @staticmethod
    def _chunk_size(line: bytes) -> int:
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError:
            size = -1
        if size < 0:
            raise MalformedAnswer(f"not a chunk's size: {line[:40]!r}")
        return size


def _is_number(text: str) -> bool:
    """Whether it is a short row of ASCII digits; other scripts have digits too."""
    return text.isascii() and text.isdigit() and len(text) <= _LENGTH_DIGITS
