"""Asking coding problems over real sockets: what comes back, what goes wrong, and how many are asked at once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from chat_server import DONE, HEAD, Script, answer, chat_server, chunk, prompt_of

from ddqueue.domain.coding import Answer, Problem, Suite
from ddqueue.errors import UsageError
from ddqueue.measure.chat import ChatClient
from ddqueue.measure.limits import Limits

IMPATIENT = {"first token": Limits(first_token_s=0.5), "idle": Limits(idle_s=0.5)}
LONG_S = 60.0
"""A pause that only a limit can end."""


def a_suite(*prompts: str) -> Suite:
    """One problem for each prompt, named by its place."""
    problems = [Problem(f"p{at}", prompt, "f", "assert f()") for at, prompt in enumerate(prompts)]
    return Suite("some", tuple(problems), "digest")


def go_on() -> None:
    """Nobody wants to stop."""


def ask_one(script: Script, client: ChatClient | None = None) -> Answer:
    with chat_server(lambda body: script) as server:
        (one,) = (client or ChatClient()).ask(server.url, a_suite("write f"), 1, go_on)
    return one


def test_what_is_asked() -> None:
    with chat_server(lambda body: answer("x")) as server:
        ChatClient().ask(server.url, a_suite("write f", "write f " * 200), 1, go_on)
    first, second = server.requests
    assert first == {
        "model": "the-model",
        "messages": [{"role": "user", "content": "write f"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
        "seed": 20_240_601,
        "max_tokens": 4096 - 512 - 3,
        "separate_reasoning": True,
        "stream_reasoning": True,
        "chat_template_kwargs": {"thinking": True, "enable_thinking": True},
    }
    assert second["max_tokens"] == 4096 - 512 - 800
    assert server.most_at_once == 1


def test_a_server_that_does_not_say_what_it_serves_is_asked_all_the_same() -> None:
    with chat_server(lambda body: answer("x"), max_model_len=None) as server:
        (one,) = ChatClient(max_tokens=777).ask(server.url, a_suite("write f"), 1, go_on)
    assert one.content == "x"
    assert [(body["model"], body["max_tokens"]) for body in server.requests] == [("default", 777)]


def test_content_and_reasoning_are_kept_apart() -> None:
    one = ask_one(answer("```python\ndef f(): ...\n```", "Let me think about f.", tokens=42))
    assert one.content == "```python\ndef f(): ...\n```"
    assert one.reasoning == "Let me think about f."
    assert (one.finish_reason, one.prompt_tokens, one.output_tokens, one.error) == ("stop", 11, 42, None)
    assert one.tag is None
    assert one.duration_s > 0


def test_only_reasoning_until_the_limit() -> None:
    one = ask_one(answer("", "Hmm. " * 50, "length"))
    assert (one.content, one.finish_reason, one.error) == (None, "length", None)
    assert one.reasoning == "Hmm. " * 50


def test_a_build_that_names_its_weights_in_a_chunk_is_heard() -> None:
    named = chunk({"content": "x"}, "stop", metadata={"weight_version": "ddqueue-1-2"})
    assert ask_one([HEAD, named, DONE]).tag == "ddqueue-1-2"


def test_events_split_anywhere() -> None:
    whole = b"".join(step for step in answer("é" * 30) if isinstance(step, bytes))
    split: list[bytes | float] = [whole[at : at + 13] for at in range(0, len(whole), 13)]
    assert ask_one(split).content == "é" * 30


HTTP_400 = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 14\r\n\r\n"
SOME = chunk({"content": "def f"})
SLOWLY: list[bytes | float] = [step for _ in range(1200) for step in (SOME, 0.05)]


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ([HEAD, SOME], "ClosedEarly: the answer ended after 1 events without [DONE]"),
        ([HEAD, SOME, b"data: {not json\n\n", DONE], "MalformedAnswer: event 2 is not JSON"),
        ([HEAD, SOME, b'data: {"error": {"message": "Internal server error"}}\n\n', DONE], "ServerError: Internal"),
        ([HEAD, SOME, chunk({}, "abort"), DONE], "ServerError: the server aborted the request"),
        ([HEAD + SOME, LONG_S], "IdleTimeout: silent for 0.5 s after the answer had begun"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n", SOME], "ClientPayloadError"),
    ],
)
def test_an_answer_that_breaks_off_keeps_what_came(script: Script, error: str) -> None:
    one = ask_one(script, ChatClient(IMPATIENT["idle"] if LONG_S in script else None))
    assert one.error is not None
    assert one.error.startswith(error)
    assert one.content == "def f"


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ([HTTP_400, b'{"error":"no"}'], 'HttpError: 400 {"error":"no"}'),
        ([], "ServerDisconnectedError"),
        ([LONG_S], "FirstTokenTimeout: nothing came within 0.5 s"),
        ([HEAD, LONG_S], "FirstTokenTimeout: nothing came within 0.5 s"),
        ([b"SSH-2.0-OpenSSH\r\n"], "ClientResponseError"),
    ],
)
def test_no_answer_at_all(script: Script, error: str) -> None:
    one = ask_one(script, ChatClient(IMPATIENT["first token"] if LONG_S in script else None))
    assert one.error is not None
    assert one.error.startswith(error)
    assert (one.content, one.finish_reason) == (None, None)


def test_an_endless_answer_is_ended() -> None:
    endless: list[bytes | float] = [HEAD, *[SOME] * 5000, DONE]
    one = ask_one(endless, ChatClient(answer_limit_bytes=100_000))
    assert one.error == "OversizedAnswer: more than 100000 bytes"
    assert 0 < len(one.content or "") < 100_000
    slow = [HEAD, *SLOWLY]
    one = ask_one(slow, ChatClient(Limits(total_s=0.5)))
    assert one.error == "TotalTimeout: not finished after 0.5 s"


def test_nobody_listens() -> None:
    with chat_server(lambda body: answer("x")) as server:
        url = server.url
    answers = ChatClient().ask(url, a_suite("a", "b"), 2, go_on)
    assert [(one.error or "").partition(":")[0] for one in answers] == ["ClientConnectorError"] * 2
    with pytest.raises(UsageError):
        ChatClient().ask("ftp://somewhere", a_suite("a"), 1, go_on)


def test_under_load_the_batch_is_really_that_large() -> None:
    """Five problems at C=8: two samples each; all eight are open before any is answered."""
    eight = threading.Barrier(8)

    def script(body: Mapping[str, Any]) -> Script:
        if len(server.requests) <= 8:
            eight.wait(30)
        return answer(prompt_of(body))

    with chat_server(script) as server:
        answers = ChatClient().ask(server.url, a_suite("a", "b", "c", "d", "e"), 8, go_on)
    assert server.most_at_once == 8
    assert [(one.problem, one.sample, one.content, one.concurrency) for one in answers] == [
        (f"p{at}", sample, prompt, 8) for sample in (0, 1) for at, prompt in enumerate("abcde")
    ]


def test_a_failed_request_is_not_sent_again_and_costs_the_others_nothing() -> None:
    def script(body: Mapping[str, Any]) -> Script:
        return [HEAD, SOME] if prompt_of(body) == "b" else answer("fine")

    with chat_server(script) as server:
        answers = ChatClient().ask(server.url, a_suite("a", "b", "c"), 3, go_on)
    assert [one.error is None for one in answers] == [True, False, True]
    assert sorted(map(prompt_of, server.requests)) == ["a", "b", "c"]


def test_a_stop_is_passed_on_and_the_connections_are_closed() -> None:
    class Stop(Exception):
        pass

    asked = threading.Event()

    def script(body: Mapping[str, Any]) -> Script:
        asked.set()
        return [HEAD, *SLOWLY]

    def should_stop() -> None:
        if asked.is_set():
            raise Stop

    with chat_server(script) as server:
        with pytest.raises(Stop):
            ChatClient().ask(server.url, a_suite("a", "b"), 2, should_stop)
        deadline = time.monotonic() + 20
        while server.open and time.monotonic() < deadline:
            time.sleep(0.02)
        assert server.open == 0, "the server still writes to a client that stopped"


def test_what_a_real_server_streamed(real_chat: Sequence[str]) -> None:
    one = ask_one([HEAD, *(line.encode() for line in real_chat)])
    text = (one.content or "").replace("getattrokie", "", 1)
    assert text == "DataCal" * 11
    assert (one.reasoning, one.finish_reason, one.prompt_tokens, one.output_tokens) == (None, "length", 11, 24)
    assert (one.tag, one.error) == (None, None)


@pytest.fixture
def real_chat(pytestconfig: pytest.Config) -> Sequence[str]:
    """The lines of an SGLang 0.5.15's streamed chat answer."""
    lines: list[str] = json.loads((pytestconfig.rootpath / "tests/data/sglang/stream_chat.json").read_text())
    return lines
