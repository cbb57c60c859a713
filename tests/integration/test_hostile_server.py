"""Servers that answer with what no server should: the load client, the questions about a server, and the chat client
end in bounded time and memory, and no number comes of it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import pytest
from hostile_http import BLOCK, drip, for_ever, hostile_server, times

from ddqueue.coding.suites import load_suite
from ddqueue.domain.measurement import Invalid, PointRun
from ddqueue.domain.metrics.summary import measure
from ddqueue.domain.sweep import Point
from ddqueue.engine.http import ask, server_info
from ddqueue.measure.chat import ChatClient
from ddqueue.measure.limits import Limits
from ddqueue.measure.process import ClientProcess

LIMITS = Limits(connect_s=5, first_token_s=2, idle_s=2, total_s=3, events=2000)
POINT = Point(2, 20, 8)
HANGS_S = 60.0
"""A run that takes so long hangs; nothing else depends on how long anything takes."""
MOST_MIB = 160
"""For a process of about 45 MiB and a few events of at most 4."""

NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
OPEN = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"
BOMB = gzip.compress(bytes(2**26), 9) * 16
"""A gigabyte of zeros."""


def event(value: object, **meta: object) -> bytes:
    return b"data: " + json.dumps({"text": value, "meta_info": meta}).encode() + b"\n\n"


def sized(*pieces: bytes) -> bytes:
    body = b"".join(pieces)
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def in_chunks(piece: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(piece), piece)


TOKEN = event("a", completion_tokens=1)

ANSWERS: dict[str, tuple[Callable[[], Iterable[bytes]], str]] = {
    "a head without an end": (lambda: for_ever(b"X-More: of it\r\n", b"HTTP/1.1 200 OK\r\n"), "MalformedAnswer"),
    "a header's line without an end": (lambda: for_ever(BLOCK, b"HTTP/1.1 200 OK\r\nX: "), "MalformedAnswer"),
    "a head byte by byte": (lambda: drip(b"X: y\r\n", b"HTTP/1.1 200 OK\r\n"), "FirstTokenTimeout"),
    "interim answers for ever": (lambda: for_ever(b"HTTP/1.1 100 Continue\r\n\r\n" * 999), "FirstTokenTimeout"),
    "no HTTP": (lambda: for_ever(b"\x00\xff\x16\x03"), "MalformedAnswer"),
    "a status in another script": (lambda: ["HTTP/1.1 \u00b200 OK\r\n\r\n".encode("latin-1")], "MalformedAnswer"),
    "a length in another script": (
        lambda: ["HTTP/1.1 200 OK\r\nContent-Length: \u00b2\r\n\r\n".encode("latin-1") + DONE[:8]],
        "ClosedEarly",
    ),
    "a length of 5000 digits": (lambda: [b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n"], "Closed"),
    "a gigabyte": (
        lambda: times(BLOCK, 2**14, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % 2**30),
        "MalformedAnswer: an event is larger",
    ),
    "an event without an end": (lambda: for_ever(BLOCK, OPEN + b'data: {"text": "'), "MalformedAnswer: an event is"),
    "a chunk without an end": (
        lambda: for_ever(BLOCK, CHUNKED + in_chunks(TOKEN) + b'7ffffff\r\ndata: {"text": "'),
        "MalformedAnswer: an event is larger",
    ),
    "a chunk's size without an end": (lambda: for_ever(BLOCK, CHUNKED + b"1;"), "MalformedAnswer: a line between"),
    "a chunk of a size below zero": (lambda: [CHUNKED, b"-5\r\nabcde\r\n"], "MalformedAnswer: not a chunk's size"),
    "a trailer without an end": (lambda: for_ever(BLOCK, CHUNKED + b"0\r\nX: "), "MalformedAnswer: a line between"),
    "trailers for ever": (lambda: for_ever(b"X: y\r\n" * 999, CHUNKED + b"0\r\n"), "FirstTokenTimeout"),
    "tokens for ever": (lambda: for_ever(in_chunks(TOKEN) * 99, CHUNKED), "MalformedAnswer: more than 2000 events"),
    "tokens for ever, unchunked": (lambda: for_ever(TOKEN * 99, OPEN), "MalformedAnswer: more than 2000 events"),
    "events without a count for ever": (lambda: for_ever(event("a") * 99, OPEN), "MalformedAnswer: more than 2000"),
    "comments for ever": (lambda: for_ever(b": alive\n\n" * 999, OPEN), "TotalTimeout"),
    "comments byte by byte": (lambda: drip(b": alive\n\n", OPEN), "TotalTimeout"),
    "an error without an end": (lambda: for_ever(BLOCK, b"HTTP/1.1 500 No\r\n\r\n"), "HttpError: 500 aaa"),
    "never [DONE]": (lambda: [sized(TOKEN, event("b", completion_tokens=8))], "ClosedEarly"),
    "cut in the middle": (lambda: [CHUNKED + in_chunks(TOKEN) + b'ff\r\ndata: {"te'], "ClosedEarly"),
    "no JSON": (lambda: [sized(TOKEN, b"data: {completion_tokens: 8}\n\n", DONE)], "MalformedAnswer: event 2"),
    "no UTF-8": (lambda: [sized(TOKEN, b'data: {"text": "\xff\xfe"}\n\n', DONE)], "MalformedAnswer: event 2"),
    "a number of 5000 digits": (lambda: [sized(b'data: {"a": ' + b"9" * 5000 + b"}\n\n", DONE)], "MalformedAnswer"),
    "depth 100,000": (lambda: [sized(b'data: {"a": ' + b"[" * 100_000 + b"\n\n", DONE)], "MalformedAnswer"),
    "depth 100,000, with a count": (
        lambda: [sized(b'data: {"completion_tokens":8,"a": ' + b"[" * 100_000 + b"}\n\n", DONE)],
        "MalformedAnswer: the last event",
    ),
    "an error 900 deep": (
        lambda: [sized(b'data: {"error": ' + b"[" * 900 + b"]" * 900 + b"}\n\n", DONE)],
        "ServerError",
    ),
    "a gigabyte of zeros, compressed": (
        lambda: [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB), BOMB],
        "ClosedEarly",
    ),
}


def go_on_until_it_hangs() -> Callable[[], None]:
    deadline = time.monotonic() + HANGS_S

    def check() -> None:
        assert time.monotonic() < deadline, "it hangs"

    return check


Load = Callable[[Callable[[], Iterable[bytes]]], PointRun]


@pytest.fixture(scope="module")
def client() -> Iterator[ClientProcess]:
    """One for every case: what one server did to it, the next would show."""
    with ClientProcess(limits=LIMITS) as running:
        yield running


@pytest.fixture
def load(client: ClientProcess) -> Load:
    """One run of the real client against a server that tokenizes nothing and generates what is given."""

    def run(answer: Callable[[], Iterable[bytes]]) -> PointRun:
        with hostile_server(lambda path: answer() if path == "/generate" else [NOT_FOUND]) as url:
            return client.run(url, POINT, 0, "salt", go_on_until_it_hangs())

    return run


@pytest.mark.parametrize("name", list(ANSWERS))
def test_the_load_client_names_it_and_makes_no_number_of_it(load: Load, client: ClientProcess, name: str) -> None:
    answer, error = ANSWERS[name]
    before = client.pid
    run = load(answer)
    assert before in (None, client.pid)
    measured = measure(run, None)
    assert {(request.error or "")[: len(error)] for request in run.requests} == {error}
    assert all(len(request.error or "") < 600 for request in run.requests)
    assert {Invalid.REQUESTS_FAILED, Invalid.NO_TOKENS} <= set(measured.reasons)
    assert (measured.output_throughput_tok_s, measured.ttft_ms, measured.acceptance_length) == (None, None, None)
    assert float(run.client["peak_rss_mib"]) < MOST_MIB


def test_events_that_come_twice_are_counted_once(load: Load) -> None:
    tokens = [event("a", completion_tokens=count) for count in (1, 1, 4, 4, 8, 8, 8)]
    measured = measure(load(lambda: [sized(*tokens, DONE, DONE, event("b", completion_tokens=900))]), None)
    assert (measured.reasons, measured.output_tokens) == ((), 16)


@pytest.mark.parametrize("claimed", [9, 1_000_000, 10**12, -8, 8.5, "8", [8], None, True, float("nan"), 1e300])
def test_a_count_that_cannot_be_is_no_speed(load: Load, claimed: object) -> None:
    answer = sized(TOKEN, event("b", completion_tokens=claimed), DONE)
    measured = measure(load(lambda: [answer]), None)
    assert not measured.valid
    assert measured.output_tokens < POINT.concurrency * 1_000_001


TOKENIZERS: dict[str, Callable[[], Iterable[bytes]]] = {
    "without an end": lambda: for_ever(BLOCK, OPEN + b'{"tokens": [['),
    "of no numbers": lambda: [sized(b'{"tokens": [["a", null], [1.5, -3, 1e99]]}')],
    "depth 100,000": lambda: [sized(b'{"tokens": ' + b"[" * 100_000)],
    "of too large numbers": lambda: [sized(b'{"tokens": [[' + b"9" * 300 + b"]]}")],
}


@pytest.mark.parametrize("name", list(TOKENIZERS))
def test_a_hostile_tokenizer_is_none(client: ClientProcess, name: str) -> None:
    generated = sized(TOKEN, event("b", completion_tokens=8), DONE)
    with hostile_server(lambda path: TOKENIZERS[name]() if path == "/tokenize" else [generated]) as url:
        run = client.run(url, POINT, 0, "salt", go_on_until_it_hangs())
    assert run.client["prompts"] == "random ids"
    assert float(run.client["peak_rss_mib"]) < MOST_MIB


QUESTIONS: dict[str, tuple[Callable[[], Iterable[bytes]], type[OSError] | None]] = {
    "a head without an end": (lambda: for_ever(b"X-More: of it\r\n", b"HTTP/1.1 200 OK\r\n"), ConnectionError),
    "a header's line without an end": (lambda: for_ever(BLOCK, b"HTTP/1.1 200 OK\r\nX: "), ConnectionError),
    "a head byte by byte": (lambda: drip(b"X: y\r\n", b"HTTP/1.1 200 OK\r\n"), TimeoutError),
    "a body byte by byte": (lambda: drip(b"[", OPEN), TimeoutError),
    "interim answers for ever": (lambda: for_ever(b"HTTP/1.1 100 Continue\r\n\r\n" * 999), TimeoutError),
    "no HTTP": (lambda: for_ever(b"\x00\xff\x16\x03"), ConnectionError),
    "a status in another script": (
        lambda: ["HTTP/1.1 \u00b200 OK\r\n\r\n".encode("latin-1")],
        ConnectionError,
    ),
    "a chunk's size without an end": (lambda: for_ever(BLOCK, CHUNKED + b"1"), ConnectionError),
    "a chunk's size that is none": (lambda: [CHUNKED, b"zz\r\n"], ConnectionError),
    "a body without an end": (lambda: for_ever(BLOCK, OPEN), None),
    "a gigabyte of zeros, compressed": (
        lambda: [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", BOMB],
        None,
    ),
    "depth 100,000": (lambda: [sized(b"[" * 100_000)], None),
    "a number of 5000 digits": (lambda: [sized(b'{"tp_size": ' + b"9" * 5000 + b"}")], None),
    "no UTF-8": (lambda: [sized(b'{"\xff": 1}')], None),
    "a list": (lambda: [sized(b"[1]")], None),
}


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_a_question_about_a_server_ends_and_gives_nothing(name: str) -> None:
    answer, error = QUESTIONS[name]
    with hostile_server(lambda _: answer()) as url:
        assert server_info(lambda path: ask(url, "GET", path, timeout_s=1)) is None
        if error is not None:
            with pytest.raises(error):
                ask(url, "GET", "/health", timeout_s=1)
        else:
            assert len(ask(url, "GET", "/health", timeout_s=10).body) <= 8 * 2**20


CHATS: dict[str, tuple[Callable[[], Iterable[bytes]], str]] = {
    "a head without an end": (lambda: for_ever(b"X-More: of it\r\n", b"HTTP/1.1 200 OK\r\n"), ""),
    "a header's line without an end": (lambda: for_ever(BLOCK, b"HTTP/1.1 200 OK\r\nX: "), ""),
    "an event without an end": (lambda: for_ever(BLOCK, OPEN + b'data: {"a": "'), "MalformedAnswer"),
    "an error without an end": (lambda: for_ever(BLOCK, b"HTTP/1.1 500 No\r\n\r\n"), "HttpError: 500 aaa"),
    "comments for ever": (lambda: drip(b": alive\n\n", OPEN), "TotalTimeout"),
    "depth 100,000": (lambda: [sized(b'data: {"a": ' + b"[" * 100_000 + b"\n\n", DONE)], "MalformedAnswer"),
    "a gigabyte of zeros, compressed": (
        lambda: [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB), BOMB],
        "ClosedEarly",
    ),
}


@pytest.mark.parametrize("asked", ["/v1/models", "/v1/chat/completions"])
@pytest.mark.parametrize("name", list(CHATS))
def test_the_chat_client_names_it_and_goes_on(name: str, asked: str) -> None:
    answer, error = CHATS[name]
    suite = load_suite("core5")
    short = Limits(connect_s=2, first_token_s=2, idle_s=2, total_s=2)
    with hostile_server(lambda path: answer() if path == asked else [sized(DONE)]) as url:
        answers = ChatClient(short).ask(url, suite, 5, go_on_until_it_hangs())
    assert len(answers) == len(suite.problems)
    assert [one.content for one in answers] == [None] * len(answers)
    if asked == "/v1/models":
        assert [one.error for one in answers] == [None] * len(answers)
    else:
        assert all(one.error and one.error.startswith(error) for one in answers)


@pytest.mark.parametrize(
    "answer",
    [
        lambda: for_ever(BLOCK, OPEN),
        lambda: for_ever(b"X: y\r\n", b"HTTP/1.1 200 OK\r\n"),
        lambda: [sized(b'{"weight_version": ["a"], "speculative_algorithm": {}, "simulated": "x"}')],
    ],
    ids=["a body without an end", "a head without an end", "wrong types"],
)
def test_a_person_who_measures_it_gets_one_line(answer: Callable[[], Iterable[bytes]]) -> None:
    """`ddqueue measure URL` meets strangers' servers."""
    with hostile_server(lambda path: answer() if "info" in path else chain([sized(b"{}")])) as url:
        done = subprocess.run(
            [sys.executable, "-m", "ddqueue", "measure", url, "--repeats", "1", "--output", "8"],
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=False,
        )
    assert done.returncode in (1, 3)
    assert "Traceback" not in done.stdout + done.stderr
