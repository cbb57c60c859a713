"""What the simulated server answers to coding problems, whole and streamed, and how its decoder can go wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sim_server import DDTREE, SimServer, running, wait_until

from ddqueue.coding.suites import load_suite
from ddqueue.domain.coding import Outcome, Problem
from ddqueue.domain.extraction import ExtractionRule, extract
from ddqueue.sim import words
from ddqueue.sim.answering import answer_to, no_answer
from ddqueue.sim.faults import FaultKind, parse
from ddqueue.sim.solutions import SOLUTIONS

PROBLEMS = load_suite("core5").problems
PARSER = ("--reasoning-parser", "kimi_k2")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimServer]:
    with running(tmp_path_factory.mktemp("plain"), *DDTREE) as server:
        server.wait_ready()
        yield server


@pytest.fixture(scope="module")
def parsing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimServer]:
    with running(tmp_path_factory.mktemp("parsing"), *DDTREE, *PARSER) as server:
        server.wait_ready()
        yield server


def body(problem: Problem, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": problem.prompt}], "max_tokens": 4096, **more}


def choice_of(server: SimServer, problem: Problem, **more: Any) -> dict[str, Any]:
    choice: dict[str, Any] = server.json("POST", "/v1/chat/completions", body(problem, **more))["choices"][0]
    return choice


def together(server: SimServer, **more: Any) -> list[dict[str, Any]]:
    """The choices for all problems, asked at once."""
    with ThreadPoolExecutor(len(PROBLEMS)) as pool:
        return list(pool.map(lambda problem: choice_of(server, problem, **more), PROBLEMS))


def code_in(choice: dict[str, Any], problem: Problem) -> str | None:
    message = choice["message"]
    return extract(message["content"], message["reasoning_content"], choice["finish_reason"], problem.entry_point).code


def streamed(server: SimServer, problem: Problem, **more: Any) -> list[dict[str, Any]]:
    events = server.events("/v1/chat/completions", body(problem, stream=True, **more))
    assert events[-1] == b"[DONE]"
    return [json.loads(event) for event in events[:-1]]


def text_of(chunks: list[dict[str, Any]], key: str) -> str:
    return "".join(chunk["choices"][0]["delta"].get(key) or "" for chunk in chunks if chunk["choices"])


def right(problem: Problem) -> str:
    return SOLUTIONS[problem.entry_point].code


def slipped(problem: Problem) -> str:
    return SOLUTIONS[problem.entry_point].slipped


def test_every_problem_gets_the_right_solution_with_its_reasoning_where_the_parser_puts_it(
    plain: SimServer, parsing: SimServer
) -> None:
    for problem, inline, apart in zip(PROBLEMS, together(plain), together(parsing), strict=True):
        assert code_in(inline, problem) == code_in(apart, problem) == right(problem)
        assert inline["finish_reason"] == apart["finish_reason"] == "stop"
        assert inline["message"]["reasoning_content"] is None
        thought = SOLUTIONS[problem.entry_point].thought
        reasoning, end, content = inline["message"]["content"].partition("</think>")
        assert (reasoning.removeprefix("<think>"), end) == (thought, "</think>")
        assert (apart["message"]["reasoning_content"], apart["message"]["content"]) == (thought, content)


def test_a_request_can_have_its_reasoning_left_in(plain: SimServer, parsing: SimServer) -> None:
    left_in = choice_of(parsing, PROBLEMS[0], separate_reasoning=False)
    assert left_in["message"] == choice_of(plain, PROBLEMS[0])["message"]


def test_a_stream_says_the_same_as_the_whole_answer(plain: SimServer, parsing: SimServer) -> None:
    for server, problem in ((plain, PROBLEMS[0]), (parsing, PROBLEMS[0]), (parsing, PROBLEMS[3])):
        whole = choice_of(server, problem)["message"]
        chunks = streamed(server, problem, stream_options={"include_usage": True})
        assert text_of(chunks, "content") == whole["content"]
        assert text_of(chunks, "reasoning_content") == (whole["reasoning_content"] or "")
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
        assert not any(delta.get("content") and delta.get("reasoning_content") for delta in deltas)
        usage = chunks[-1]["usage"]
        thought_tokens = len(words.pieces(SOLUTIONS[problem.entry_point].thought))
        # The tags count, one or both, as the template did or did not write the first.
        assert usage["reasoning_tokens"] - thought_tokens in (1, 2) or server is plain
        assert usage["reasoning_tokens"] == 0 or server is parsing


def test_an_answer_is_cut_off_by_its_limit(plain: SimServer, parsing: SimServer) -> None:
    problem = PROBLEMS[0]
    in_reasoning = choice_of(parsing, problem, max_tokens=10)
    assert (in_reasoning["message"]["content"], in_reasoning["finish_reason"]) == (None, "length")
    assert SOLUTIONS[problem.entry_point].thought.startswith(in_reasoning["message"]["reasoning_content"])
    in_code = choice_of(plain, problem, max_tokens=60)
    found = extract(in_code["message"]["content"], None, in_code["finish_reason"], problem.entry_point)
    assert (found.rule, found.truncated) == (ExtractionRule.CUT_OFF, True)
    assert choice_of(plain, problem, max_tokens=800, ignore_eos=True)["finish_reason"] == "length"


def test_the_same_question_gets_the_same_answer_and_questions_differ_in_form() -> None:
    for problem in PROBLEMS:
        assert answer_to(problem.prompt, 7) == answer_to(problem.prompt, 7)
        answers = ["".join(answer_to(problem.prompt, seed).right) for seed in range(6)]
        assert [answer.startswith("<think>") for answer in answers] == [True, False] * 3
        assert [answer.count("```python") for answer in answers] == [2, 1, 1] * 2
        for answer in answers:
            found = extract(answer, None, "stop", problem.entry_point)
            assert (found.code, found.rule) == (right(problem), ExtractionRule.FENCE)


def test_a_wrong_answer_has_as_many_tokens_and_parts_inside_the_last_code() -> None:
    for problem in PROBLEMS:
        for seed in range(6):
            answer = answer_to(problem.prompt, seed)
            assert len(answer.right) == len(answer.wrong)
            assert 0 < answer.reasoning_tokens < answer.parting < len(answer.right)
            assert extract("".join(answer.wrong), None, "stop", problem.entry_point).code == slipped(problem)
    unknown = answer_to("What is the time?", 1)
    assert (unknown.right, unknown.reasoning_tokens, unknown.parting) == (unknown.wrong, 0, len(unknown.right))


@pytest.mark.parametrize(("arguments", "expected"), [(DDTREE, slipped), ((), right)])
def test_corrupt_speculation_is_wrong_alone_and_the_baseline_is_right(
    tmp_path: Path, arguments: tuple[str, ...], expected: Callable[[Problem], str]
) -> None:
    with running(tmp_path, *arguments, "--sim-fault", "corrupt-speculation") as server:
        server.wait_ready()
        assert code_in(choice_of(server, PROBLEMS[3]), PROBLEMS[3]) == expected(PROBLEMS[3])
        for problem, choice in zip(PROBLEMS, together(server), strict=True):
            assert code_in(choice, problem) == expected(problem)


def test_corruption_under_load_spares_an_answer_that_is_alone(tmp_path: Path) -> None:
    with running(tmp_path, *DDTREE, "--sim-fault", "corrupt-under-load=2") as server:
        server.wait_ready()
        for problem in PROBLEMS[2:4]:
            assert code_in(choice_of(server, problem), problem) == right(problem)
        load = threading.Thread(target=server.generate, args=(20_000,))
        load.start()
        wait_until(lambda: server.ask("POST", "/flush_cache")[0] == 400, "the load did not arrive")
        for problem, choice in zip(PROBLEMS, together(server), strict=True):
            assert code_in(choice, problem) == slipped(problem)
        text = text_of(streamed(server, PROBLEMS[3]), "content")
        assert extract(text, None, "stop", PROBLEMS[3].entry_point).code == slipped(PROBLEMS[3])
        assert load.is_alive()
        server.ask("POST", "/abort_request", {"abort_all": True})
        load.join()


def test_an_answer_that_is_reasoning_only(tmp_path: Path) -> None:
    for fault, tokens, reason in (
        ("no-answer", 256, "length"),
        ("no-answer@stop", 19, "stop"),
        ("no-answer=30", 30, "length"),
    ):
        with running(tmp_path, *PARSER, "--sim-fault", fault) as server:
            server.wait_ready()
            reply = server.json("POST", "/v1/chat/completions", body(PROBLEMS[0]))
            choice, usage = reply["choices"][0], reply["usage"]
            assert (choice["message"]["content"], choice["finish_reason"]) == (None, reason)
            assert usage["completion_tokens"] == usage["reasoning_tokens"] == tokens
            assert choice["message"]["reasoning_content"].startswith(SOLUTIONS[PROBLEMS[0].entry_point].thought[:40])
            found = extract(None, choice["message"]["reasoning_content"], reason, PROBLEMS[0].entry_point)
            assert found.outcome_if_none is Outcome.NO_ANSWER


def test_reasoning_without_end_is_no_answer_without_a_parser_too() -> None:
    for fault, reason in ((parse("no-answer"), "length"), (parse("no-answer@stop"), "stop")):
        assert fault.kind is FaultKind.NO_ANSWER
        for problem in PROBLEMS:
            for seed in (1, 2):
                answer = no_answer(problem.prompt, seed, fault)
                assert answer.stops_by_itself == (reason == "stop")
                found = extract("".join(answer.right), None, reason, problem.entry_point)
                assert (found.code, found.outcome_if_none) == (None, Outcome.NO_ANSWER)


def test_where_these_faults_strike() -> None:
    assert parse("corrupt-under-load=8").number(2) == 8
    assert parse("no-answer").where == "length"
    with pytest.raises(ValueError, match="no-answer cannot strike at 'always'; it can at length, stop"):
        parse("no-answer@always")
    with pytest.raises(ValueError, match="say no place"):
        parse("corrupt-speculation@serving")
