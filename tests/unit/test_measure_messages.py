"""What passes between the load client and its parent; prompts; limits; the text of errors."""

from __future__ import annotations

import json

import pytest

from ddqueue.domain.measurement import RequestRecord
from ddqueue.domain.sweep import Point
from ddqueue.measure import messages
from ddqueue.measure.errors import TEXT_LIMIT, ServerError, described
from ddqueue.measure.http1 import Address
from ddqueue.measure.limits import Limits
from ddqueue.measure.messages import RunRequest, RunResult
from ddqueue.measure.phrases import phrases
from ddqueue.measure.prompts import RANDOM_IDS, PromptSource

RECORD = RequestRecord(
    index=3,
    started_s=0.001,
    finished_s=1.25,
    prompt_tokens=60,
    output_tokens=9,
    cached_tokens=0,
    arrivals=((0.2, 1), (0.220001, 5), (0.24, 9)),
    verifies=2,
    correct_drafts=6,
    draft_histogram=(0, 0, 0, 2),
    finish_reason="length",
    tag="a",
    error=None,
    not_finite=("cached_tokens",),
)
# No server listens on the discard port here, so a source at this address has no tokenizer.
NOWHERE = Address("127.0.0.1", 9)


def request(**changes: object) -> RunRequest:
    values = {"concurrency": 2, "context": 50, "output": 8, "requests": 4, "repeat": 0, "salt": "s"} | changes
    return RunRequest(url="http://127.0.0.1:9", **values)  # type: ignore[arg-type]


def prompts(run: RunRequest) -> list[list[int]]:
    bodies, source = PromptSource(NOWHERE).bodies(run)
    assert source == RANDOM_IDS
    return [json.loads(body)["input_ids"] for body in bodies]


def test_a_request_survives_its_line() -> None:
    asked = request(warm_up=True, limits=Limits(idle_s=3.5), vocabulary=(5, 9))
    assert RunRequest.from_line(asked.to_line()) == asked


def test_a_result_survives_its_line_to_the_microsecond() -> None:
    failed = RequestRecord(index=4, started_s=0.0, finished_s=0.5, error="HttpError: 503")
    result = RunResult(started_at=1.5, started_s=7.125, wall_s=1.25, requests=(RECORD, failed), client={"chunks": 3})
    line = result.to_line()
    assert line.count(b"\n") == 1
    assert RunResult.from_line(line) == RunResult(
        1.5, 7.125, 1.25, (RECORD, failed), {"chunks": 3, "arrivals_merged": 1}
    )


def test_a_result_that_is_too_long_merges_arrivals_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "ARRIVALS_LIMIT", 4)
    arrivals = tuple((0.5 * number, number) for number in range(1, 11))
    long = RequestRecord(index=0, started_s=0.0, finished_s=5.0, arrivals=arrivals)
    read = RunResult.from_line(RunResult(0.0, 0.0, 5.0, (long,), {}).to_line())
    assert read.client["arrivals_merged"] == 3
    assert read.requests[0].arrivals == ((0.5, 1), (2.0, 4), (3.5, 7), (5.0, 10))


def test_prompts_have_the_asked_length_and_are_the_same_for_the_same_salt() -> None:
    first = prompts(request())
    assert [len(prompt) for prompt in first] == [50] * 4
    assert all(1000 <= token < 20000 for prompt in first for token in prompt)
    assert first == prompts(request())


@pytest.mark.parametrize("change", [{"salt": "t"}, {"repeat": 1}, {"warm_up": True}, {"context": 51}])
def test_prompts_of_another_run_begin_otherwise(change: dict[str, object]) -> None:
    both = prompts(request()) + prompts(request(**change))
    assert len({tuple(prompt[:2]) for prompt in both}) == 8


def test_the_bounds_of_the_vocabulary_hold() -> None:
    assert {token for prompt in prompts(request(vocabulary=(7, 9))) for token in prompt} == {7, 8}


def test_the_body_forces_the_output_length() -> None:
    body = json.loads(PromptSource(NOWHERE).bodies(request())[0][0])
    assert body["sampling_params"] == {"max_new_tokens": 8, "temperature": 0, "ignore_eos": True}
    assert body["stream"] is True


def test_phrases_are_many_and_each_begins_where_a_tokenizer_splits() -> None:
    texts = phrases()
    assert len(texts) == len(set(texts)) > 1500
    assert {text[0] for text in texts} == {" ", "\n"}


def test_limits_allow_a_prefill_of_minutes_and_grow_with_the_prompts() -> None:
    small, large = Limits.for_point(Point(1, 60, 256)), Limits.for_point(Point(32, 131072, 256))
    assert small.first_token_s > 360
    assert small.idle_s < small.first_token_s < small.total_s
    assert large.first_token_s > 32 * 131072 / 400
    assert large.idle_s > small.idle_s


def test_errors_keep_their_type_and_a_bounded_text() -> None:
    assert described(TimeoutError()) == "TimeoutError"
    assert described(ServerError("a\0b")) == "ServerError: a\N{SYMBOL FOR NULL}b"
    assert len(described(ServerError("x" * 9999))) == len("ServerError: ") + TEXT_LIMIT
