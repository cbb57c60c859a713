"""Suites of coding problems: the one that is built in, and folders of JSON lines that a person wrote."""

from __future__ import annotations

import ast
import difflib
import hashlib
import json
import re
import warnings
from collections.abc import Iterable, Sequence
from importlib import resources
from keyword import iskeyword
from pathlib import Path
from typing import Any

from ddqueue.domain.coding import BUILT_IN_SUITES, Problem, Suite
from ddqueue.errors import FileError, FileProblem, UsageError

MAX_PROBLEMS = 2_000
MAX_FILE_BYTES = 16 * 2**20
_LONGEST_CHARS = {"name": 63, "prompt": 50_000, "entry_point": 100, "tests": 500_000}
"""The keys of a line, each with how long its text may be."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_SHAPE = 'Write one JSON object a line: {"name": ..., "prompt": ..., "entry_point": ..., "tests": ...}.'


def load_suite(name_or_folder: str) -> Suite:
    """The built-in suite of that name, or the problems in the `*.jsonl` files of that folder.

    A line has the keys `name`, `prompt`, `entry_point` and `tests`; a text without a slash is a name.

    Raises:
        FileError: every mistake in the folder's files.
        UsageError: there is no such suite or folder, it cannot be read, or it holds no problem.
    """
    if "/" not in name_or_folder:
        if name_or_folder not in BUILT_IN_SUITES:
            raise UsageError(_no_such_suite(name_or_folder))
        file = resources.files("ddqueue.coding") / "suites" / f"{name_or_folder}.jsonl"
        return _suite(name_or_folder, [(file.name, file.read_bytes())])
    folder = Path(name_or_folder)
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise UsageError(f"the coding suite {folder} {what}; name a folder of *.jsonl files")
    files = sorted(path for path in folder.glob("*.jsonl") if not path.name.startswith("."))
    if not files:
        raise UsageError(f"the coding suite {folder} holds no *.jsonl file. {_SHAPE}")
    return _suite(folder.resolve().name, [(str(path), _read(path)) for path in files])


def digest_of(problems: Iterable[Problem]) -> str:
    """SHA-256 over the problems' canonical JSON, in hexadecimal; their order does not matter."""
    plain = [
        {"name": one.name, "prompt": one.prompt, "entry_point": one.entry_point, "tests": one.tests}
        for one in sorted(problems, key=lambda one: one.name)
    ]
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _no_such_suite(name: str) -> str:
    known = ", ".join(BUILT_IN_SUITES)
    guess = difflib.get_close_matches(name.lower(), BUILT_IN_SUITES, n=1)
    hint = f"did you mean {guess[0]}?" if guess else f"there is {known}."
    return f"there is no coding suite {name!r}; {hint} A folder is written with a slash: ./{name or 'problems'}."


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise UsageError(f"{path}: not a file; a coding suite is made of files")
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_FILE_BYTES:
        raise UsageError(f"{path}: more than {MAX_FILE_BYTES >> 20} MiB; part the problems over several files")
    return data


def _suite(name: str, files: Sequence[tuple[str, bytes]]) -> Suite:
    reader = _Reader()
    for file, data in files:
        # Only \n parts lines: JSON may hold any other separator inside its text.
        for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
            if line.strip():
                reader.read_line(file, number, line)
    if reader.mistakes:
        raise FileError(reader.mistakes)
    if not reader.problems:
        raise UsageError(f"the coding suite {name} holds no problem: {', '.join(file for file, _ in files)} is empty")
    if len(reader.problems) > MAX_PROBLEMS:
        raise UsageError(f"the coding suite {name} holds {len(reader.problems)} problems, more than {MAX_PROBLEMS}")
    problems = tuple(reader.problems)
    return Suite(name, problems, digest_of(problems))


class _Reader:
    """Reads lines into problems, and gathers every mistake."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.mistakes: list[FileProblem] = []
        self._places: dict[str, str] = {}

    def read_line(self, file: str, number: int, line: bytes) -> None:
        """One line that is not blank."""

        def refuse(key: str, problem: str, remedy: str) -> None:
            self.mistakes.append(FileProblem(file, number, key, problem, remedy))

        try:
            value = json.loads(line.decode(), object_pairs_hook=_once)
        except UnicodeDecodeError as error:
            return refuse("", f"not UTF-8 at byte {error.start + 1} of the line", "Save the file as UTF-8.")
        except _Repeated as error:
            return refuse(str(error), "the key is given twice", "Keep one of them.")
        except json.JSONDecodeError as error:
            return refuse("", f"no JSON: {error.msg} at column {error.colno}", _SHAPE)
        except (ValueError, RecursionError):
            # A number of thousands of digits, or nesting as deep.
            return refuse("", "no JSON that Python reads", _SHAPE)
        if not isinstance(value, dict):
            return refuse("", "not an object", _SHAPE)
        before = len(self.mistakes)
        for key, problem, remedy in (*_mistakes(value), *self._repetition(value.get("name"), file, number)):
            refuse(key, problem, remedy)
        if len(self.mistakes) == before:
            self.problems.append(Problem(value["name"], value["prompt"], value["entry_point"], value["tests"]))
        return None

    def _repetition(self, name: Any, file: str, number: int) -> list[tuple[str, str, str]]:
        if not isinstance(name, str):
            return []
        first = self._places.setdefault(name, f"{file}:{number}")
        if first == f"{file}:{number}":
            return []
        return [("name", f"{name!r} is taken by {first}", "Give every problem a name of its own.")]


class _Repeated(Exception):
    """A key that an object has twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Repeated(key)
        found[key] = value
    return found


def _mistakes(value: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What is wrong with one line's object, each as key, problem and remedy."""
    found = []
    for key in value.keys() - _LONGEST_CHARS.keys():
        guess = difflib.get_close_matches(key.lower(), _LONGEST_CHARS, n=1)
        remedy = f"Did you mean {guess[0]}?" if guess else f"Known here: {', '.join(_LONGEST_CHARS)}."
        found.append((key, "unknown key", remedy))
    usable = set()
    for key, longest in _LONGEST_CHARS.items():
        mistake = _text_mistake(key, value, longest)
        if mistake is None:
            usable.add(key)
        else:
            found.append((key, *mistake))
    if "name" in usable and _NAME.fullmatch(value["name"]) is None:
        remedy = "Use lower-case letters, digits, dots, dashes and underscores, a letter or digit first."
        found.append(("name", f"{value['name']!r} is not a name", remedy))
    if "entry_point" not in usable:
        return found
    function = value["entry_point"]
    if not function.isidentifier() or iskeyword(function):
        return [*found, ("entry_point", f"{function!r} cannot name a function", "Write the function's name alone.")]
    if "prompt" in usable and not _has_word(value["prompt"], function):
        found.append(("prompt", f"it does not name the function {function}", "Say which function is to be written."))
    if "tests" in usable and (mistake := _tests_mistake(value["tests"], function)) is not None:
        found.append(("tests", *mistake))
    return found


def _text_mistake(key: str, value: dict[str, Any], longest: int) -> tuple[str, str] | None:
    text = value.get(key)
    if key not in value:
        return f"{key} is missing", _SHAPE
    if not isinstance(text, str):
        return f"{type(text).__name__} is not text", "Write it in double quotes."
    if not text.strip():
        return "no text", _SHAPE
    if len(text) > longest:
        return f"{len(text)} characters, more than {longest}", "Shorten it."
    if _UNSTORABLE.search(text) is not None:
        return "it holds NUL or half of a surrogate pair", "Write such a character as an escape inside the tests' code."
    return None


def _tests_mistake(tests: str, function: str) -> tuple[str, str] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(tests)
    except SyntaxError as error:
        return (
            f"no Python: {error.msg} in line {error.lineno} of the tests",
            "Write Python with an assert for each case.",
        )
    except (ValueError, RecursionError, MemoryError):
        return "Python cannot parse them", "Write Python with an assert for each case."
    if not any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
        return "they assert nothing, so that every answer would pass", f"Write `assert {function}(...) == ...`."
    if not any(isinstance(node, ast.Name) and node.id == function for node in ast.walk(tree)):
        return f"they never use {function}", f"Write `assert {function}(...) == ...`."
    return None


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None
