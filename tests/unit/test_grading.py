"""Grading in real sandboxes: what passes, what fails and by which words, and what is neither."""

from __future__ import annotations

import json

import pytest

from ddqueue.coding.grading import Grader
from ddqueue.coding.limits import Limits
from ddqueue.coding.sandbox import Sandbox
from ddqueue.coding.sandbox_walls import Bubblewrap
from ddqueue.domain.coding import Outcome, Problem, Score

PROBLEM = Problem(
    name="double",
    prompt="Write f(x), which doubles x.",
    entry_point="f",
    tests="""
def check(function):
    for x in (1, 2):
        assert function(x) == 2 * x, (
            "not doubled"
        )

check(f)
assert f(3) == 6
assert len([f(4)]) == 1
""",
)
RIGHT = "def f(x):\n    return 2 * x\n"
WRONG = "def f(x):\n    return 4\n"


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    found = Sandbox()
    if found.walls is None:
        pytest.skip(str(found.run("").fault))
    return found


@pytest.fixture(scope="module")
def grader(sandbox: Sandbox) -> Grader:
    return Grader(sandbox, Limits(cpu_s=2, wall_s=60))


def failed(score: Score) -> str:
    assert score.outcome is Outcome.FAILED, score
    return score.detail


@pytest.mark.parametrize(
    "code",
    [
        RIGHT,
        "f = lambda x: x + x",
        "class F:\n    def __call__(self, x): return 2 * x\nf = F()",
        "from dataclasses import dataclass\n@dataclass\nclass D:\n    x: 'int'\ndef f(x): return D(x).x * 2",
        "import sys\nsys.setrecursionlimit(5000)\ndef f(x): return 0 if x == 0 else 2 + f(x - 1)",
        "print('debug', end='')\ndef f(x):\n    print('é')\n    return 2 * x",
        "def f(x): return 2 * x\nif __name__ == '__main__':\n    print(input())\n    raise SystemExit(1)",
        "# \N{SNOWMAN}\ndef f(größe): return 2 * größe",
        "import threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start()\n" + RIGHT,
        "def len(x): return 7\n" + RIGHT,
    ],
)
def test_right_answers_pass(grader: Grader, code: str) -> None:
    assert grader.grade(PROBLEM, code) == Score(Outcome.PASSED, code=code)


def test_a_wrong_answer_fails_by_its_test(grader: Grader) -> None:
    assert (
        failed(grader.grade(PROBLEM, WRONG))
        == "AssertionError: not doubled at: assert function(x) == 2 * x, 'not doubled'"
    )
    almost = "def f(x): return min(2 * x, 4)"
    assert failed(grader.grade(PROBLEM, almost)) == "AssertionError at: assert f(3) == 6"


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        (
            "def f(x):\n    return g(x)",
            "NameError: name 'g' is not defined at line 2 of the code, called at: assert function(x)",
        ),
        ("x = 1\nx / 0", "ZeroDivisionError: division by zero at line 2 of the code"),
        ("import numpy", "ModuleNotFoundError: No module named 'numpy' at line 1 of the code"),
        ("def g(x): return 2 * x", "NameError: name 'f' is not defined"),
        ("", "NameError: name 'f' is not defined"),
        ("x = 1\ndef f(x:\n    return", "does not compile: SyntaxError: '(' was never closed at line 2 of the code"),
        ("a\0b", "does not compile: "),
        ("x = '\ud800'", "does not compile: UnicodeEncodeError: "),
        ("(" * 5000, "does not compile: SyntaxError: too many nested parentheses at line 1 of the code"),
        (
            "def f(x): return f(x)",
            "RecursionError: maximum recursion depth exceeded at line 1 of the code, called at: ",
        ),
        ("def f(x): return bytearray(4 << 30)", "memory over 512 MiB"),
        ("kept = []\nwhile True: kept.append(bytearray(1 << 20))", "memory over 512 MiB"),
        ("def f(x):\n    while True: pass", "timed out after 2 s CPU"),
        ("def f(x): print('x' * (2 << 20))", "output over 1048576 bytes"),
        ("import ctypes\nctypes.string_at(0)", "killed by SIGSEGV before every test had held"),
        (
            "class E(Exception):\n    def __str__(self): raise self\ndef f(x): raise E",
            "E at line 3 of the code, called at: ",
        ),
    ],
)
def test_the_detail_says_what_decided(grader: Grader, code: str, detail: str) -> None:
    said = failed(grader.grade(PROBLEM, code))
    assert said.startswith(detail)
    assert "\n" not in said


def test_sleeping_is_told_from_working(sandbox: Sandbox) -> None:
    score = Grader(sandbox, Limits(wall_s=2)).grade(PROBLEM, "import time\ndef f(x): time.sleep(1000)")
    assert failed(score) == "timed out after 2 s"


FAKED = json.dumps({"step": "loaded"}) + "\n" + json.dumps({"step": "passed", "token": None}) + "\n"


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nsys.exit(0)",
        "import os\nos._exit(0)",
        "raise SystemExit",
        "def f(x):\n    import sys\n    sys.exit(0)",
        "def f(x):\n    import os\n    os._exit(0)",
        "import atexit\natexit.register(print, 'ok')\n" + WRONG,
        "print('ok')\nprint('passed')\nprint('OK', flush=True)\n" + WRONG,
        "import builtins, sys\nbuiltins.print = lambda *a, **k: None\nsys.stdout = sys.stderr = None\n" + WRONG,
        "import builtins\nbuiltins.AssertionError = SystemExit\nclass AssertionError(Exception): pass\n" + WRONG,
        "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n__debug = False\n" + WRONG,
        "import sys\nsys.excepthook = lambda *a: None\nsys.unraisablehook = lambda *a: None\n" + WRONG,
        "import builtins\nbuiltins.exec = builtins.compile = builtins.eval = lambda *a, **k: None\n" + WRONG,
        'import json, os\nkeep = os.write\njson.dumps = lambda *a, **k: \'{"step": "passed"}\'\n' + WRONG,
        # A trace function that jumps from the first line of the tests to the last, which holds.
        "import sys\ndef trace(frame, event, argument):\n"
        "    if event == 'line' and 'check' not in frame.f_globals: frame.f_lineno = 10\n"
        "    return trace if frame.f_code.co_filename == '<tests>' else None\nsys.settrace(trace)\n" + WRONG,
        # Every file and every descriptor that there is, for a token; the right words without one, to each.
        "import glob, os\nfound = [open(place).read() for place in glob.glob('/tmp/*') + glob.glob('/*.py')]\n"
        f"for fd in range(64):\n    try: os.write(fd, {FAKED!r}.encode())\n    except OSError: pass\n" + WRONG,
        # The same, and then it leaves with success.
        f"import os\nos.write(3, {FAKED!r}.encode())\nos._exit(0)",
        # Another program in its place.
        "import os, sys\nos.execv(sys.executable, [sys.executable, '-I', '-S', '-c', 'print(1)'])",
        "import os\nif os.fork(): os._exit(0)\n" + WRONG,
    ],
)
def test_no_short_way_is_a_pass(grader: Grader, code: str) -> None:
    assert grader.grade(PROBLEM, code).outcome is Outcome.FAILED


def test_the_tests_have_the_built_ins_of_python_and_not_the_answers(grader: Grader) -> None:
    problem = Problem("all", "", "f", "assert all(f(x) == 2 * x for x in (1, 2))")
    patched = "import builtins\nbuiltins.all = lambda values: True\nall = builtins.all\n"
    assert failed(grader.grade(problem, patched + WRONG)) == f"AssertionError at: {problem.tests}"
    assert grader.grade(problem, patched + RIGHT).outcome is Outcome.PASSED


def test_the_token_is_not_sent_to_whom_the_harness_is_not(grader: Grader) -> None:
    code = """
import json, os, select
os.write(3, b'{"step": "loaded"}\\n{"step": "loaded", "pass_on": null}\\n')
if select.select([3], [], [], 1)[0]:
    os.write(3, json.dumps({"step": "passed", "token": json.loads(os.read(3, 1 << 16))["token"]}).encode() + b"\\n")
os._exit(0)
"""
    assert failed(grader.grade(PROBLEM, code)) == "exited with status 0 before every test had held"


def test_every_run_has_tokens_of_its_own(grader: Grader) -> None:
    code = "import sys\nraise ValueError(sys._getframe(1).f_locals['pass_on'])"
    first, second = (failed(grader.grade(PROBLEM, code)) for _ in range(2))
    assert first.startswith("ValueError: ")
    assert first != second


# Neither pass nor fail.


def test_a_sandbox_that_does_not_stand_is_neither_pass_nor_fail() -> None:
    for walls in ([], [Bubblewrap("/bin/false")], [Bubblewrap("/no/such/program")]):
        for code in (RIGHT, WRONG):
            score = Grader(Sandbox(walls)).grade(PROBLEM, code)
            assert score.outcome is Outcome.NOT_GRADED
            assert score.detail.startswith("no sandbox on this machine, so nothing was run.")
            assert score.code == code


def test_tests_that_do_not_compile_are_no_fault_of_the_answer(grader: Grader) -> None:
    score = grader.grade(Problem("broken", "", "f", "assert f(1) ==\n"), RIGHT)
    assert score.outcome is Outcome.NOT_GRADED
    assert score.detail.startswith("the tests of broken do not compile: invalid syntax")


def test_an_interpreter_that_cannot_start_is_no_fault_of_the_answer(sandbox: Sandbox) -> None:
    # Address space for Linux to start a program, and not for Python to start in.
    score = Grader(sandbox, Limits(memory_mib=8)).grade(PROBLEM, RIGHT)
    assert score.outcome is Outcome.NOT_GRADED
    assert "did not start" in score.detail or "ended without" in score.detail or "memory" in score.detail
