"""Whatever a server says of itself and of an answer: no exception, and every number that comes of it can be stored."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ddqueue.domain.measurement import Measurement, PointRun, RequestRecord
from ddqueue.domain.metrics.summary import measure
from ddqueue.domain.sweep import Point
from ddqueue.engine.effective import compare
from ddqueue.measure.answer import AnswerReader
from ddqueue.measure.chat_answer import ChatAnswerReader
from ddqueue.measure.errors import ServerError
from ddqueue.measure.messages import RunResult

BIGINT = 2**63
"""What Postgres's largest whole number stays below."""

FIELDS = [
    *("completion_tokens", "prompt_tokens", "cached_tokens", "spec_verify_ct", "spec_num_correct_drafts"),
    *("spec_accepted_drafts", "spec_correct_drafts_histogram", "spec_accept_histogram", "finish_reason"),
    *("weight_version", "error", "meta_info", "usage", "text"),
]
NUMBERS = st.integers() | st.floats() | st.sampled_from([10**30, -1, 10**400, 1e300, 2**31, 2**63, 999_999_999])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=6) | st.sampled_from(["\0", "\ud800", "8", "abort"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*FIELDS, "type", "message"]), inner),
    max_leaves=10,
)
METAS = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=8)


def numbers_of(measurement: Measurement) -> list[float | int | None]:
    spreads = [measurement.ttft_ms, measurement.itl_ms, measurement.tpot_ms, measurement.e2e_ms]
    return [
        *(measurement.output_throughput_tok_s, measurement.total_throughput_tok_s, measurement.step_time_ms),
        *(measurement.acceptance_length, measurement.cached_share, measurement.verifies, measurement.correct_drafts),
        *(measurement.prompt_tokens, measurement.output_tokens, *(measurement.draft_histogram or ())),
        *(value for spread in spreads if spread for value in (spread.mean, spread.p50, spread.p90, spread.p99)),
    ]


@given(st.lists(METAS, min_size=1, max_size=4), st.booleans())
@settings(deadline=None, max_examples=100)
def test_no_answer_makes_a_number_that_cannot_be(metas: list[dict[str, Any]], flat: bool) -> None:
    reader = AnswerReader()
    for number, meta in enumerate(metas):
        event = meta if flat else {"text": "a", "meta_info": meta}
        reader.take(1.0 + number, json.dumps(event).encode())
    reader.take(9.0, b"[DONE]")
    reader.ended()
    record = reader.record(0, 0.0, 10.0, 0.0, None)
    measured = measure(PointRun(Point(1, 20, 8), 1, datetime.now(UTC), 10.0, (record,)), "tag")
    for value in numbers_of(measured):
        assert value is None or (math.isfinite(value) and 0 <= value < BIGINT)
    if measured.valid:
        assert measured.output_tokens == 8
    assert len(record.finish_reason or "") <= 200
    assert len(record.tag or "") <= 200
    assert len(record.error or "") < 600
    survived = RunResult(0.0, 0.0, 10.0, (record,), {})
    assert isinstance(RunResult.from_line(survived.to_line()).requests[0], RequestRecord)


@given(st.lists(st.dictionaries(st.sampled_from(["choices", "usage", "metadata", "error"]), VALUES), max_size=4))
@settings(deadline=None)
def test_no_chat_answer_does_either(events: list[dict[str, Any]]) -> None:
    reader = ChatAnswerReader(2**20)
    for event in events:
        # What the server says of a failure of its own is the one thing that may be raised of JSON objects.
        with suppress(ServerError):
            reader.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
    for count in (reader.prompt_tokens, reader.output_tokens):
        assert count is None or 0 <= count < BIGINT


ASKED = {"tp_size": 8, "attention_backend": "fa3", "mem_fraction_static": 0.85, "json_model_override_args": '{"a": 1}'}


@given(
    st.dictionaries(st.sampled_from([*ASKED, "internal_states", "weight_version", "x"]), VALUES | st.just("[" * 2000))
)
@settings(deadline=None, max_examples=100)
def test_any_configuration_can_be_compared(info: dict[str, Any]) -> None:
    check = compare(ASKED, info)
    assert dict(check.requested) == ASKED
    assert set(check.difference) <= set(ASKED)
    assert all(value is None or isinstance(value, (str, int, float, bool)) for value in check.effective.values())


def test_a_deep_setting_and_a_number_beyond_floats() -> None:
    check = compare(ASKED, {"json_model_override_args": "[" * 100_000, "tp_size": 10**400})
    assert set(check.difference) == {"json_model_override_args", "tp_size"}
