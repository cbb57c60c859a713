"""`ddqueue extract`, as a person and a program use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ddqueue.cli.extract import extract_command
from ddqueue.errors import UsageError

CODE = "def f(x):\n    return x + 1"
ANSWER = f"Sure:\n\n```python\n{CODE}\n```\n\nIt takes O(1) time.\n"


def run(text: str | bytes, *arguments: str) -> Result:
    """The command on this text, as standard input."""
    return CliRunner().invoke(extract_command, ["--entry-point", "f", "-", *arguments], input=text)


def reply(content: str | None, reasoning: str | None = None, finish_reason: str = "stop") -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "reasoning_content": reasoning, "tool_calls": None}
    return {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}


def test_the_code_is_on_standard_output_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "answer.txt"
    path.write_text(ANSWER)
    from_file = CliRunner().invoke(extract_command, ["--entry-point", "f", str(path)])
    for result in (from_file, run(ANSWER), run(b"\xef\xbb\xbf" + ANSWER.replace("\n", "\r\n").encode())):
        assert (result.exit_code, result.stdout, result.stderr) == (0, f"{CODE}\n", "")


def test_a_cut_off_answer_gives_its_code_and_a_word_about_it() -> None:
    result = run(f"```python\n{CODE}")
    assert (result.exit_code, result.stdout) == (0, f"{CODE}\n")
    assert result.stderr == "the answer was cut off; its code may be incomplete\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "the answer is empty (no_answer)"),
        (f"<think>{ANSWER}", "the reasoning never ends (no_answer)"),
        (f"{ANSWER}</think>", "nothing comes after the reasoning (no_answer)"),
        ("Let me see", "the answer stopped after a few words (no_answer)"),
        (ANSWER.replace("def f", "def g"), "no code in the answer parses and defines it (no_code)"),
        (json.dumps(reply("I wi", "hm", "length")), "the answer was cut off before its code was complete (no_answer)"),
        (json.dumps(reply(None, ANSWER, "length")), "nothing comes after the reasoning (no_answer)"),
        (json.dumps(reply(None, None)), "the answer is empty (no_answer)"),
    ],
)
def test_an_answer_without_code_is_one_line_that_says_why(text: str, line: str) -> None:
    result = run(text)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"no code for f: {line}\n")


@pytest.mark.parametrize(
    "value",
    [
        reply(ANSWER, "Maybe def f(x): return x"),
        reply(f"Maybe {ANSWER}</think>{ANSWER}"),
        {"choices": [reply(ANSWER)["choices"][0]["message"]]},
        {"content": ANSWER},
        {"content": ANSWER, "reasoning_content": "hm", "finish_reason": "stop", "problem": "p"},
    ],
)
def test_a_raw_reply_is_read_as_one(value: dict[str, Any]) -> None:
    result = run(json.dumps(value))
    assert (result.exit_code, result.stdout) == (0, f"{CODE}\n")


def test_json_that_is_no_reply_is_an_answer() -> None:
    dictionary = '{"a": 1}\n\ndef f(x):\n    return x'
    assert run(dictionary).stdout == f"{dictionary}\n"
    assert run('{"a": 1}').exit_code == 1
    assert run('{"choices": ').exit_code == 1
    assert run("{" * 100_000).exit_code == 1


def test_json_says_the_rule_the_code_and_the_outcome() -> None:
    result = run(ANSWER, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "file": "-",
        "entry_point": "f",
        "code": CODE,
        "rule": "fence",
        "truncated": False,
        "outcome": None,
    }
    result = run(json.dumps(reply(None, "hm", "length")), "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "file": "-",
        "entry_point": "f",
        "code": None,
        "rule": "only reasoning",
        "truncated": True,
        "outcome": "no_answer",
    }


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"choices": []}, "-: the reply has no choice, so there is no answer in it"),
        ({"choices": ["text"]}, "-: the reply has no choice"),
        ({"choices": [{"message": "text"}]}, "-: the reply's message is no object"),
        ({"content": [{"type": "text"}]}, "-: content is neither text nor null"),
        ({"content": "x", "finish_reason": {"type": "stop"}}, "-: finish_reason is neither text nor null"),
    ],
)
def test_a_reply_without_an_answer_is_refused(value: dict[str, Any], words: str) -> None:
    result = run(json.dumps(value))
    assert isinstance(result.exception, UsageError)
    assert words in str(result.exception)


def test_mistakes_of_usage(tmp_path: Path) -> None:
    for file, name, words in (
        (tmp_path / "none", "f", "none: no such file"),
        (tmp_path, "f", "not a file; name the file that holds the answer"),
        (tmp_path, "f(x)", "--entry-point 'f(x)' cannot name a function; write its name alone"),
        (tmp_path, "def", "--entry-point 'def' cannot name a function"),
    ):
        result = CliRunner().invoke(extract_command, ["--entry-point", name, str(file)])
        assert isinstance(result.exception, UsageError)
        assert words in str(result.exception)
    assert CliRunner().invoke(extract_command, ["-"], input=ANSWER).exit_code == 2


def test_the_real_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ddqueue", "extract", "--entry-point", "f"]
    done = subprocess.run([*command, "-"], input=ANSWER, capture_output=True, text=True, check=True)
    assert done.stdout == f"{CODE}\n"
    missing = subprocess.run([*command, str(tmp_path / "none")], capture_output=True, text=True, check=False)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr == f"ddqueue: {tmp_path}/none: no such file\n"
