"""What is read from the events of an answer: recorded ones, and the faults that servers were seen to make."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddqueue.domain.measurement import RequestRecord
from ddqueue.measure.answer import DONE, AnswerReader
from ddqueue.measure.exchange import Exchange
from ddqueue.measure.plain_events import plain_count, plain_events

STREAMS = Path(__file__).parents[1] / "data" / "streams"


def read(*events: dict[str, Any] | bytes, gap_s: float = 0.01) -> RequestRecord:
    reader = AnswerReader()
    for number, event in enumerate(events, start=1):
        reader.take(number * gap_s, event if isinstance(event, bytes) else json.dumps(event).encode())
    reader.ended()
    return reader.record(0, 0.0, 1.0, 0.0, None)


def chunk(tokens: Any, **meta: Any) -> dict[str, Any]:
    return {"text": "x", "meta_info": {"completion_tokens": tokens, **meta}}


def recorded(name: str, split_at: int | None = None) -> RequestRecord:
    """A recorded stream through a whole exchange, as an HTTP answer; every read cut in two at `split_at`."""
    exchange = Exchange(0)
    started = exchange.started
    exchange.take(started, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    for seconds, line in json.loads((STREAMS / name).read_text()):
        data = b"%x\r\n%s\r\n" % (len(line), line.encode())
        pieces = [data] if split_at is None else [data[:split_at], data[split_at:]]
        for piece in pieces:
            exchange.take(started + seconds, piece)
    assert exchange.finished is None
    exchange.take(started + 1, b"0\r\n\r\n")
    assert exchange.finished == started + 1
    return exchange.record(started)


@pytest.mark.parametrize("split_at", [None, 1, 3, 40])
def test_a_recorded_generate_stream(split_at: int | None) -> None:
    record = recorded("sglang-0.5.15-generate.json", split_at)
    assert record.error is None
    assert (record.prompt_tokens, record.output_tokens, record.cached_tokens) == (7, 40, 0)
    assert (record.verifies, record.correct_drafts, record.draft_histogram) == (39, 0, (39,))
    assert (record.finish_reason, record.tag) == ("length", "ddq-attempt-7f3a")
    assert [tokens for _, tokens in record.arrivals] == list(range(1, 41))
    assert record.arrivals[0][0] == pytest.approx(0.02158, abs=2e-5)
    assert record.arrivals[-1][0] == pytest.approx(0.18805, abs=2e-5)


def test_a_recorded_chat_stream_knows_its_length_from_the_usage_chunk_alone() -> None:
    record = recorded("sglang-0.5.15-chat.json")
    assert (record.error, record.prompt_tokens, record.output_tokens) == (None, 11, 24)


def test_the_count_of_a_last_chunk_without_text_is_the_answers_length() -> None:
    choice = {"choices": [{"index": 0, "text": "x"}]}
    usage = {"choices": [], "usage": {"completion_tokens": 40, "prompt_tokens": 5}}
    assert read(choice, choice, choice, usage, DONE).output_tokens == 40


def test_three_pieces_and_a_usage_of_two_are_two_tokens() -> None:
    pieces = [{"choices": [{"index": 0, "text": text}]} for text in ("Hel", "lo", " world")]
    assert read(*pieces, {"choices": [], "usage": {"completion_tokens": 2}}, DONE).output_tokens == 2


def test_no_count_at_all_is_unknown_and_not_guessed() -> None:
    record = read({"text": "one"}, {"text": "one two"}, DONE)
    assert (record.error, record.output_tokens, record.arrivals) == (None, None, ())


def test_arrivals_are_cumulative_and_a_chunk_without_new_tokens_is_none() -> None:
    record = read(chunk(1), chunk(5), chunk(5), chunk(9), DONE)
    assert record.arrivals == ((0.01, 1), (0.02, 5), (0.04, 9))


def test_events_of_one_read_arrived_together() -> None:
    reader = AnswerReader()
    for read_at, tokens in ((0.1, 1), (0.2, 2), (0.2, 3)):
        reader.take(read_at, json.dumps(chunk(tokens)).encode())
    assert reader.record(0, 0.0, 1.0, 0.0, None).arrivals == ((0.1, 1), (0.2, 3))


def test_text_that_looks_like_a_count_is_not_one() -> None:
    text = 'the "completion_tokens":99, and {"error": 1}'
    record = read({"meta_info": {"completion_tokens": 3, "weight_version": "a"}, "text": text}, DONE)
    assert (record.error, record.output_tokens) == (None, 3)


def test_an_error_inside_a_stream_fails_the_request_even_if_it_ends_with_done() -> None:
    record = read(chunk(1), chunk(2), {"error": {"message": "CUDA error: out of memory", "code": 500}}, DONE)
    assert record.error == "ServerError: CUDA error: out of memory"


def test_an_error_without_a_message_keeps_what_there_is() -> None:
    assert read({"error": "busy\0"}, DONE).error == "ServerError: busy\N{SYMBOL FOR NULL}"


def test_an_abort_is_an_error() -> None:
    record = read(chunk(2, finish_reason={"type": "abort", "message": "too long"}), DONE)
    assert (record.error, record.finish_reason) == ("ServerError: aborted: too long", "abort")


def test_an_answer_without_done_was_cut_off() -> None:
    assert read(chunk(1), chunk(2)).error == "ClosedEarly: the answer ended after 2 events without [DONE]"


@pytest.mark.parametrize("event", [b'{"text": "cut', b"nonsense", b"[1, 2]"])
def test_an_event_that_is_no_json_object_fails_the_request(event: bytes) -> None:
    error = read(chunk(1), event, chunk(2), DONE).error
    assert error is not None
    assert error.startswith("MalformedAnswer: event 2 is not")


def test_numbers_that_are_not_finite_become_null_and_are_named() -> None:
    record = read(chunk(8, cached_tokens=float("nan"), spec_verify_ct=float("inf")), DONE)
    assert (record.error, record.output_tokens, record.cached_tokens, record.verifies) == (None, 8, None, None)
    assert record.not_finite == ("cached_tokens", "spec_verify_ct")


def test_correct_drafts_come_from_the_histogram_where_the_sum_is_missing() -> None:
    record = read(chunk(9, spec_verify_ct=4, spec_accept_histogram=[1, 2, 1]), DONE)
    assert (record.correct_drafts, record.draft_histogram) == (4, (1, 2, 1))


def test_no_speculation_is_null() -> None:
    record = read(chunk(9), DONE)
    assert (record.verifies, record.correct_drafts, record.draft_histogram) == (None, None, None)


def framed(*payloads: bytes) -> bytes:
    """One HTTP chunk that holds these events."""
    body = b"".join(b"data: " + payload + b"\n\n" for payload in payloads)
    return b"%x\r\n%s\r\n" % (len(body), body)


COUNTED = framed(b'{"completion_tokens":1}')


def test_the_short_way_takes_whole_events_and_leaves_one_that_is_not() -> None:
    assert plain_events(COUNTED) == (1, 0, len(COUNTED), False)
    assert plain_events(COUNTED * 3) == (3, 2 * len(COUNTED), 3 * len(COUNTED), False)
    assert plain_events(COUNTED * 2 + COUNTED[:-1]) == (2, len(COUNTED), 2 * len(COUNTED), True)
    assert plain_events(COUNTED[:-1]) == plain_events(COUNTED[:6]) == (0, 0, 0, True)


@pytest.mark.parametrize(
    "data",
    [
        framed(DONE),
        framed(b'{"completion_tokens":1}', b'{"completion_tokens":2}'),
        framed(b'{"error":{"completion_tokens":1}}'),
        b"0\r\n\r\n",
        b"zz" + COUNTED[2:],
        b"f" + COUNTED[2:],
        b"c\r\n: keep alive\n\n\r\n",
    ],
)
def test_the_short_way_leaves_everything_else_to_the_long_one(data: bytes) -> None:
    assert plain_events(data) == (0, 0, 0, False)
    assert plain_events(COUNTED + data) == (1, 0, len(COUNTED), False)


def test_an_event_of_a_megabyte_is_taken_the_short_way() -> None:
    large = framed(b'{"text":"' + b"x" * 1_100_000 + b'","meta_info":{"completion_tokens":9}}')
    assert plain_events(large) == (1, 0, len(large), False)
    assert plain_events(large[:-1]) == (0, 0, 0, True)
    assert plain_count(large) == 9


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (b'{"completion_tokens":7}', 7),
        (b'{"meta_info":{"completion_tokens":7}}', 7),
        (b'{"meta_info":{"completion_tokens":7},"a":1}', 7),
        (b'{"completion_tokens":12345,"a":1}', 12345),
        (b'{"completion_tokens":1.5}', None),
        (b'{"completion_tokens":1e3}', None),
        (b'{"completion_tokens":null}', None),
        (b'{"completion_tokens":NaN,"a":1}', None),
        (b'{"completion_tokens":123456789012345}', None),
        (b'{"text":"no count"}', None),
    ],
)
def test_a_count_is_taken_only_where_it_is_plainly_a_whole_number(payload: bytes, count: int | None) -> None:
    assert plain_count(payload) == count


@given(st.lists(st.integers(min_value=1, max_value=3000), max_size=40))
def test_however_the_bytes_are_cut_into_reads_the_answer_is_the_same(cuts: list[int]) -> None:
    events = [json.dumps(chunk(tokens, weight_version="a"), separators=(",", ":")).encode() for tokens in range(1, 30)]
    wire = b"".join(map(framed, [*events, DONE])) + b"0\r\n\r\n"
    exchange = Exchange(0)
    exchange.take(0.0, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    edges = [0, *sorted({cut % len(wire) for cut in cuts}), len(wire)]
    for number, (start, end) in enumerate(pairwise(edges), start=1):
        if start < end:
            exchange.take(float(number), wire[start:end])
    record = exchange.record(0.0)
    assert (record.error, record.output_tokens, record.tag, exchange.chunks) == (None, 29, "a", 29)
    assert record.arrivals[-1][1] == 29
    assert list(record.arrivals) == sorted(record.arrivals)
    assert exchange.finished == record.finished_s == len(edges) - 1


def test_an_event_that_never_became_whole_does_not_count() -> None:
    exchange = Exchange(0)
    exchange.take(0.0, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    exchange.take(1.0, COUNTED + framed(b'{"completion_tokens":2}')[:-3])
    exchange.closed(None)
    record = exchange.record(0.0)
    assert (record.output_tokens, record.error) == (
        1,
        "ClosedEarly: the connection closed after 1 events without [DONE]",
    )


def test_each_event_in_a_read_of_its_own_has_its_own_time() -> None:
    exchange = Exchange(0)
    exchange.take(0.0, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    for tokens in range(1, 30):
        exchange.take(float(tokens), framed(json.dumps(chunk(tokens), separators=(",", ":")).encode()))
    assert exchange.record(0.0).arrivals == tuple((float(tokens), tokens) for tokens in range(1, 30))
