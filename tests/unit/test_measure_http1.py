"""HTTP/1.1 framing and server-sent events, wherever the bytes are split."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddqueue.errors import UsageError
from ddqueue.measure.errors import MalformedAnswer
from ddqueue.measure.http1 import Address, ResponseReader
from ddqueue.measure.sse import EventReader

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nDate: today\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n7;name=value\r\n, world\r\n0\r\nX-Trailer: 1\r\n\r\n"
)
SIZED = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 7\r\n\r\nnot yet"


def read(answer: bytes, cuts: list[int]) -> tuple[ResponseReader, bytes]:
    reader = ResponseReader()
    edges = [0, *sorted({cut % len(answer) for cut in cuts}), len(answer)]
    return reader, b"".join(reader.feed(answer[start:end]) for start, end in pairwise(edges))


@given(st.lists(st.integers(min_value=1), max_size=len(CHUNKED)))
def test_a_chunked_body_is_the_same_wherever_it_is_split(cuts: list[int]) -> None:
    reader, body = read(CHUNKED, cuts)
    assert (reader.status, body, reader.complete, reader.keep_alive) == (200, b"hello, world", True, True)


@given(st.lists(st.integers(min_value=1), max_size=len(SIZED)))
def test_a_sized_body_is_the_same_wherever_it_is_split(cuts: list[int]) -> None:
    reader, body = read(SIZED, cuts)
    assert (reader.status, body, reader.complete) == (503, b"not yet", True)


def test_every_byte_alone_and_incomplete_until_the_last() -> None:
    reader = ResponseReader()
    for byte in range(len(CHUNKED)):
        assert not reader.complete
        reader.feed(CHUNKED[byte : byte + 1])
    assert reader.complete


def test_a_body_without_framing_ends_with_the_connection() -> None:
    reader = ResponseReader()
    assert reader.feed(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc") == b"abc"
    assert not reader.complete
    reader.close()
    assert reader.complete
    assert not reader.keep_alive


def test_closing_does_not_complete_a_chunked_body() -> None:
    reader = ResponseReader()
    reader.feed(CHUNKED[:-5])
    reader.close()
    assert not reader.complete


def test_an_interim_answer_is_skipped() -> None:
    reader = ResponseReader()
    assert reader.feed(b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED) == b"not yet"
    assert reader.status == 503


@pytest.mark.parametrize(
    "answer",
    [
        b"220 mail.example ESMTP\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n",
    ],
)
def test_what_is_not_http_is_refused(answer: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        ResponseReader().feed(answer)


def test_addresses() -> None:
    assert Address.of("http://127.0.0.1:30000") == Address("127.0.0.1", 30000, "")
    assert Address.of("http://box/base/") == Address("box", 80, "/base")
    request = Address.of("http://[::1]:8000").post("/generate", b"{}")
    assert request == (
        b"POST /generate HTTP/1.1\r\nHost: [::1]:8000\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )


@pytest.mark.parametrize("url", ["127.0.0.1:30000", "https://box", "http://", "http://box:port", "http://box:99999"])
def test_an_address_that_cannot_be_used_is_the_persons_mistake(url: str) -> None:
    with pytest.raises(UsageError, match="http://HOST:PORT"):
        Address.of(url)


EVENTS = b": hello\n\ndata: one\n\nevent: x\r\ndata: two\r\ndata:three\r\n\r\ndata: [DONE]\n\n"


@given(st.lists(st.integers(min_value=1), max_size=len(EVENTS)))
def test_events_are_the_same_wherever_they_are_split(cuts: list[int]) -> None:
    reader = EventReader()
    edges = [0, *sorted({cut % len(EVENTS) for cut in cuts}), len(EVENTS)]
    pieces = [EVENTS[start:end] for start, end in pairwise(edges)]
    payloads = [payload for piece in pieces for payload in reader.feed(piece)]
    assert payloads == [b"one", b"two\nthree", b"[DONE]"]
