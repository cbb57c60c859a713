"""`ddqueue extract FILE`: the code in a model's answer, as the coding checks find it; without a server or database."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from typing import Any

import click

from ddqueue.cli.output import print_json
from ddqueue.domain.extraction import Extraction, ExtractionRule, extract
from ddqueue.errors import UsageError

_REPLY_KEYS = ("choices", "content", "reasoning_content")

_WHY_NONE: dict[ExtractionRule, str] = {
    ExtractionRule.NOTHING: "the answer is empty",
    ExtractionRule.ONLY_REASONING: "nothing comes after the reasoning",
    ExtractionRule.UNCLOSED_REASONING: "the reasoning never ends",
    ExtractionRule.CUT_OFF: "the answer was cut off before its code was complete",
    ExtractionRule.STOPPED_SHORT: "the answer stopped after a few words",
    ExtractionRule.NO_DEFINITION: "no code in the answer parses and defines it",
}


@dataclass(frozen=True)
class _Reply:
    content: str | None
    reasoning: str | None = None
    finish_reason: str | None = None


@click.command("extract")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--entry-point", "entry_point", required=True, metavar="NAME", help="The function that was asked for.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the code, the rule that found it, the outcome.")
def extract_command(file: Path, entry_point: str, as_json: bool) -> None:
    """Print the code in an answer that defines the function NAME.

    FILE (- for standard input) is the answer's text, or the JSON of a whole chat reply. Exit code 0: the code is on
    standard output; 1: there is none; 2: no such file, or nothing that can be read as an answer.
    """
    if not entry_point.isidentifier() or iskeyword(entry_point):
        raise UsageError(f"--entry-point {entry_point!r} cannot name a function; write its name alone")
    reply = _reply(_read(file), str(file))
    found = extract(reply.content, reply.reasoning, reply.finish_reason, entry_point)
    if as_json:
        print_json(_to_json(found, file, entry_point))
    elif found.code is not None:
        click.echo(found.code)
        if found.truncated:
            click.echo("the answer was cut off; its code may be incomplete", err=True)
    else:
        click.echo(f"no code for {entry_point}: {_WHY_NONE[found.rule]} ({found.outcome_if_none})", err=True)
    if found.code is None:
        sys.exit(1)


def _read(file: Path) -> str:
    if str(file) == "-":
        data = sys.stdin.buffer.read()
    elif not file.exists():
        raise UsageError(f"{file}: no such file")
    elif not file.is_file():
        raise UsageError(f"{file}: not a file; name the file that holds the answer")
    else:
        try:
            data = file.read_bytes()
        except OSError as error:
            raise UsageError(f"{file}: cannot be read: {error.strerror or error}") from error
    return data.decode("utf-8-sig", "replace")


def _reply(text: str, file: str) -> _Reply:
    """The text is the answer itself, unless it is the JSON object of a reply."""
    try:
        value = json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not any(key in value for key in _REPLY_KEYS):
        return _Reply(text)
    choice: Any = value
    if "choices" in value:
        choices = value["choices"]
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise UsageError(f"{file}: the reply has no choice, so there is no answer in it")
        choice = choices[0]
    message = choice.get("message", choice)
    if not isinstance(message, dict):
        raise UsageError(f"{file}: the reply's message is no object")
    reasoning = message.get("reasoning_content", message.get("reasoning"))
    return _Reply(
        _text_or_null(message.get("content"), "content", file),
        _text_or_null(reasoning, "reasoning_content", file),
        _text_or_null(choice.get("finish_reason"), "finish_reason", file),
    )


def _text_or_null(value: Any, key: str, file: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise UsageError(f"{file}: {key} is neither text nor null; give the answer's text as the file instead")


def _to_json(found: Extraction, file: Path, entry_point: str) -> dict[str, Any]:
    return {
        "file": str(file),
        "entry_point": entry_point,
        "code": found.code,
        "rule": found.rule,
        "truncated": found.truncated,
        "outcome": found.outcome_if_none,
    }
