"""Coding suites: the built-in one told apart right from wrong code, and folders with every mistake refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddqueue.coding import suites
from ddqueue.coding.suites import digest_of, load_suite
from ddqueue.domain.coding import BUILT_IN_SUITES, Problem
from ddqueue.errors import FileError, UsageError
from ddqueue.sim.solutions import SOLUTIONS

CORE5 = load_suite("core5")
LINE = {
    "name": "double",
    "prompt": "Write double(x), which doubles x.",
    "entry_point": "double",
    "tests": "assert double(2) == 4\n",
}

MUTANTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "busy_spans": (
        ("sorted(bookings)", "bookings"),
        ("<= gap", "< gap"),
        ("<= gap", "<= 0"),
        ("start >= end", "start > end"),
        ("start >= end", "False"),
        ("max(spans[-1][1], end)", "end"),
        ("return [tuple(span) for span in spans]", "return spans"),
        ("sorted(bookings)", "bookings.sort() or bookings"),
    ),
    "expand_hosts": (
        ("last + 1", "last"),
        (".zfill(len(match[1]))", ""),
        ("len(match[1])", "len(match[2] or match[1])"),
        (" or match[2] and int(match[1]) > int(match[2])", ""),
        ("        if not one:\n            raise ValueError(pattern)\n", ""),
        ("not re.fullmatch", "not re.match"),
        ("product(*choices)", "zip(*choices)"),
        ("return names", "return sorted(names)"),
        ("return names", "return list(dict.fromkeys(names))"),
        ('part in text.split(",")', 'part in text.strip(",").split(",")'),
        ("(?:-(", "(?: ?-("),
    ),
    "critical_path": (
        ("name in open_tasks or name", "name"),
        (" or name not in tasks", ""),
        ("return -found[0], found[1]", "return -found[0]"),
        ("return -found[0], found[1]", "return found"),
        ("total + duration", "total"),
        ("path + [name]", "[name] + path"),
        ("default=(0, []))\n            best", "default=(1, []))\n            best"),
        ("min((visit(name) for name in tasks)", "max((visit(name) for name in tasks)"),
        (
            "    return min((visit(name) for name in tasks), key=order, default=(0, []))",
            "    return visit(list(tasks)[-1])",
        ),
    ),
    "steady_from": (
        ("> tolerance", ">= tolerance"),
        ("break", "continue"),
        ("len(samples) - width,", "len(samples) - width - 1,"),
        (", -1, -1)", ", 0, -1)"),
        ("start + width]", "start + width - 1]"),
        ("found = None", "found = len(samples)"),
        ("max(window) - min(window)", "abs(window[0] - window[-1])"),
    ),
    "lease_log": (
        ("time >= until", "time > until"),
        ("holder is not None and time >= until", "False"),
        ("holder in (None, who)", "holder is None"),
        ("holder in (None, who)", "True"),
        ("allowed = holder == who", "allowed = holder is not None"),
        ('(None, None) if action == "give" else (who, time + ttl)', "(who, time + ttl)"),
        ("(who, time + ttl)", "(who, until or time + ttl)"),
        ("        if allowed:\n", "        if True:\n"),
    ),
}
"""Plausible mistakes, each as a piece of the right solution and what stands there instead."""


def passes(code: str, problem: Problem) -> bool:
    """Whether the code holds before every hidden test, in an interpreter of its own."""
    program = f"{code}\n\n{problem.tests}\nprint('all held')\n"
    done = subprocess.run([sys.executable, "-I", "-"], input=program, capture_output=True, text=True, timeout=60)
    return done.returncode == 0 and done.stdout == "all held\n"


def problem_of(function: str) -> Problem:
    return next(problem for problem in CORE5.problems if problem.entry_point == function)


def test_core5_is_five_problems_of_one_function_each() -> None:
    assert [problem.entry_point for problem in CORE5.problems] == list(SOLUTIONS)
    assert (CORE5.name, len(CORE5.problems)) == ("core5", 5)
    for problem in CORE5.problems:
        assert f"`{problem.entry_point}(" in problem.prompt
        assert problem.tests.count("\nassert ") >= 15
        assert SOLUTIONS[problem.entry_point].code not in problem.prompt + problem.tests
    assert BUILT_IN_SUITES == ("core5",)


def test_the_digest_tells_suites_apart_and_that_of_core5_changes_only_on_purpose() -> None:
    """Scores before and after a change of core5 are not comparable: whoever changes it changes this line."""
    assert CORE5.digest == "203868d59f41e277bc536285b4b717f8928379c5d80ed182d01bd691b5c89b3b"
    assert CORE5.digest == digest_of(reversed(CORE5.problems))
    first, *rest = CORE5.problems
    assert digest_of([replace(first, tests=first.tests + "\n"), *rest]) != CORE5.digest


@pytest.mark.parametrize("function", SOLUTIONS)
def test_the_right_solution_passes_and_the_slip_of_the_simulated_model_does_not(function: str) -> None:
    solution = SOLUTIONS[function]
    assert passes(solution.code, problem_of(function))
    assert solution.code.count(solution.slip[0]) == 1
    assert not passes(solution.slipped, problem_of(function))


@pytest.mark.parametrize(
    ("function", "right", "wrong"), [(function, *mutant) for function, mutants in MUTANTS.items() for mutant in mutants]
)
def test_plausible_mistakes_fail(function: str, right: str, wrong: str) -> None:
    code = SOLUTIONS[function].code
    assert right in code
    mutant = code.replace(right, wrong, 1)
    compile(mutant, "mutant", "exec")
    assert not passes(mutant, problem_of(function))


def test_code_that_ends_early_or_returns_nothing_does_not_pass() -> None:
    for problem in CORE5.problems:
        assert not passes(f"def {problem.entry_point}(*arguments):\n    return None", problem)
        assert not passes("raise SystemExit(0)", problem)


def write(folder: Path, *lines: Any, name: str = "problems.jsonl") -> Path:
    """A folder with one file of these lines; a line that is no text is written as JSON."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    return folder


def refused(folder: Path) -> list[tuple[int, str, str, str]]:
    """The mistakes found, as line, key, problem and remedy."""
    with pytest.raises(FileError) as caught:
        load_suite(str(folder))
    return [(one.line, one.key, one.problem, one.remedy) for one in caught.value.problems]


def test_a_folder_of_problems(tmp_path: Path) -> None:
    write(tmp_path, LINE, "", {**LINE, "name": "double-2", "prompt": "dóuble\u2028: `double`"}, name="a.jsonl")
    write(tmp_path, "\ufeff" + json.dumps({**LINE, "name": "b"}), name="b.jsonl")
    (tmp_path / ".c.jsonl").write_text("left out")
    (tmp_path / "README.md").write_text("left out")
    suite = load_suite(str(tmp_path))
    assert suite.name == tmp_path.name
    assert [problem.name for problem in suite.problems] == ["double", "double-2", "b"]
    assert suite.problem("double") == Problem(**LINE)
    assert suite.digest == digest_of(suite.problems)


def test_every_mistake_is_found_with_file_line_key_and_remedy(tmp_path: Path) -> None:
    shape = 'Write one JSON object a line: {"name": ..., "prompt": ..., "entry_point": ..., "tests": ...}.'
    write(
        tmp_path,
        LINE,
        "{",
        "[1]",
        '{"name": "a", "name": "b"}',
        {**LINE, "name": "Two words", "promt": "x"},
        {**LINE, "name": 3, "prompt": " "},
        {key: value for key, value in LINE.items() if key != "tests"} | {"name": "d"},
        {**LINE, "name": "e", "entry_point": "double()"},
        {**LINE, "name": "f", "prompt": "Write redouble."},
        {**LINE, "name": "g", "tests": "assert double(2 == 4"},
        {**LINE, "name": "h", "tests": "double(2)"},
        {**LINE, "name": "i", "tests": "assert True"},
        {**LINE, "name": "j", "prompt": "double\0"},
        {**LINE, "name": "k", "prompt": "double " * 10_000},
        LINE,
        '{"name": ' + "9" * 5000 + "}",
    )
    assert_code = "Write `assert double(...) == ...`."
    assert refused(tmp_path) == [
        (2, "", "no JSON: Expecting property name enclosed in double quotes at column 2", shape),
        (3, "", "not an object", shape),
        (4, "name", "the key is given twice", "Keep one of them."),
        (5, "promt", "unknown key", "Did you mean prompt?"),
        (
            *(5, "name", "'Two words' is not a name"),
            "Use lower-case letters, digits, dots, dashes and underscores, a letter or digit first.",
        ),
        (6, "name", "int is not text", "Write it in double quotes."),
        (6, "prompt", "no text", shape),
        (7, "tests", "tests is missing", shape),
        (8, "entry_point", "'double()' cannot name a function", "Write the function's name alone."),
        (9, "prompt", "it does not name the function double", "Say which function is to be written."),
        (
            10,
            "tests",
            "no Python: '(' was never closed in line 1 of the tests",
            "Write Python with an assert for each case.",
        ),
        (11, "tests", "they assert nothing, so that every answer would pass", assert_code),
        (12, "tests", "they never use double", assert_code),
        (
            *(13, "prompt", "it holds NUL or half of a surrogate pair"),
            "Write such a character as an escape inside the tests' code.",
        ),
        (14, "prompt", "70000 characters, more than 50000", "Shorten it."),
        (15, "name", f"'double' is taken by {tmp_path}/problems.jsonl:1", "Give every problem a name of its own."),
        (16, "", "no JSON that Python reads", shape),
    ]


def test_names_are_unique_over_all_files_and_a_file_is_utf_8(tmp_path: Path) -> None:
    write(tmp_path, LINE, name="a.jsonl")
    (tmp_path / "b.jsonl").write_bytes(b"\n" + json.dumps(LINE).encode() + b'\n{"name": "\xff"}\n')
    with pytest.raises(FileError) as caught:
        load_suite(str(tmp_path))
    assert [str(one).split("\n")[0] for one in caught.value.problems] == [
        f"{tmp_path}/b.jsonl:2: name: 'double' is taken by {tmp_path}/a.jsonl:1",
        f"{tmp_path}/b.jsonl:3: not UTF-8 at byte 11 of the line",
    ]


def test_a_suite_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, words in (
        ("core6", "there is no coding suite 'core6'; did you mean core5? A folder is written with a slash: ./core6."),
        ("mine", "there is no coding suite 'mine'; there is core5. A folder"),
        ("", "there is no coding suite ''"),
        (f"{tmp_path}/none", f"the coding suite {tmp_path}/none does not exist"),
        (str(tmp_path), f"the coding suite {tmp_path} holds no *.jsonl file. Write one JSON object a line"),
    ):
        with pytest.raises(UsageError) as caught:
            load_suite(name)
        assert words in str(caught.value)
    write(tmp_path, "", name="a.jsonl")
    with pytest.raises(UsageError, match=r"holds no problem: .*/a\.jsonl is empty"):
        load_suite(str(tmp_path))
    with pytest.raises(UsageError, match=r"a\.jsonl is a file; name a folder"):
        load_suite(str(tmp_path / "a.jsonl"))
    (tmp_path / "b.jsonl").mkdir()
    with pytest.raises(UsageError, match=r"b\.jsonl: not a file"):
        load_suite(str(tmp_path))
    (tmp_path / "b.jsonl").rmdir()
    write(tmp_path, LINE, {**LINE, "name": "other"}, name="a.jsonl")
    monkeypatch.setattr(suites, "MAX_PROBLEMS", 1)
    with pytest.raises(UsageError, match="holds 2 problems, more than 1"):
        load_suite(str(tmp_path))
    monkeypatch.setattr(suites, "MAX_FILE_BYTES", 100)
    with pytest.raises(UsageError, match=r"a\.jsonl: more than 0 MiB"):
        load_suite(str(tmp_path))
