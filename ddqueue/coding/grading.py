"""Grades the code of one answer: a pass is every hidden test held, and this run's token brought back after them."""

from __future__ import annotations

import ast
import json
import secrets
import signal
from pathlib import Path
from typing import Any

from ddqueue.coding.limits import Exceeded, Limits
from ddqueue.coding.sandbox import Sandbox, SandboxResult
from ddqueue.domain.coding import Outcome, Problem, Score

_HARNESS = Path(__file__).with_name("harness.py")
_SHOWN = 200
"""Characters of a test, or of an error's text, that a detail quotes."""


class Grader:
    """Runs answers against hidden tests, one after the other; never raises for what an answer does."""

    def __init__(self, sandbox: Sandbox | None = None, limits: Limits | None = None) -> None:
        self._sandbox = sandbox or Sandbox()
        self._limits = limits or Limits()
        self._harness = _HARNESS.read_text(encoding="utf-8")

    def grade(self, problem: Problem, code: str) -> Score:
        """PASSED, FAILED with what decided, or NOT_GRADED with why the grader could not do its work."""
        try:
            tests = ast.parse(problem.tests)
        except (SyntaxError, ValueError) as error:
            return Score(Outcome.NOT_GRADED, detail=f"the tests of {problem.name} do not compile: {error}", code=code)
        examination = _Examination(problem, code)
        result = self._sandbox.run(self._harness, self._limits, examination)
        outcome, detail = self._judge(examination, result, tests, problem.tests)
        return Score(outcome, detail=detail, code=code)

    def _judge(
        self, examination: _Examination, result: SandboxResult, tests: ast.Module, source: str
    ) -> tuple[Outcome, str]:
        if result.fault is not None:
            return Outcome.NOT_GRADED, result.fault
        if not examination.begun:
            return (
                Outcome.NOT_GRADED,
                f"the interpreter did not start: {_ending(result)}: {result.stderr.strip()[-500:]}",
            )
        if examination.passed:
            return Outcome.PASSED, ""
        if examination.failure is not None:
            if examination.failure.get("type") == "MemoryError":
                return Outcome.FAILED, self._limits.describe(Exceeded.MEMORY)
            return Outcome.FAILED, _describe(examination.failure, tests, source)
        if result.killed_for is not None:
            return Outcome.FAILED, self._limits.describe(result.killed_for)
        return Outcome.FAILED, f"{_ending(result)} before every test had held"


class _Examination:
    """The host's side of the harness's dialogue; implements sandbox_exchange.Dialogue.

    `begun` once the harness runs, which is before any of the answer does.
    """

    def __init__(self, problem: Problem, code: str) -> None:
        self.begun = self.passed = False
        self.failure: dict[str, Any] | None = None
        self._first = {"code": code, "entry_point": problem.entry_point, "pass_on": secrets.token_hex(16)}
        self._hidden = {"tests": problem.tests, "token": secrets.token_hex(16)}
        self._revealed = False

    def hear(self, line: str) -> str | None:
        """Lines that are out of turn, or not of the harness, change nothing."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return None
        match message:
            case {"step": "ready"} if not self.begun:
                self.begun = True
                return json.dumps(self._first)
            case {"step": "loaded", "pass_on": pass_on} if pass_on == self._first["pass_on"] and not self._revealed:
                self._revealed = True
                return json.dumps(self._hidden)
            case {"step": "passed", "token": token} if self._revealed and token == self._hidden["token"]:
                self.passed = True
            case {"step": "failed"}:
                self.failure = message
        return None


def _describe(failure: dict[str, Any], tests: ast.Module, source: str) -> str:
    """What the harness said went wrong, in one line; no part is relied on, since the answer could have sent it."""
    kind, text = str(failure.get("type")), " ".join(str(failure.get("text", "")).split())[:_SHOWN]
    error = f"{kind}: {text}" if text else kind
    lines = failure.get("lines")
    in_answer, in_tests = (lines.get("<answer>"), lines.get("<tests>")) if isinstance(lines, dict) else (None, None)
    place = f" at line {in_answer} of the code" if isinstance(in_answer, int) else ""
    if failure.get("phase") == "compile":
        return f"does not compile: {error}{place}"
    if isinstance(in_tests, int):
        return f"{error}{place}{', called' if place else ''} at: {_statement(tests, source, in_tests)}"
    return f"{error}{place}"


def _statement(tests: ast.Module, source: str, line: int) -> str:
    """The simple statement at `line` of the tests, on one line; the line itself where a compound one begins."""
    for node in ast.walk(tests):
        if isinstance(node, ast.stmt) and not hasattr(node, "body") and node.lineno <= line <= (node.end_lineno or 0):
            # As it was written, unless it was written over several lines.
            text = ast.unparse(node) if node.lineno != node.end_lineno else ast.get_source_segment(source, node)
            return " ".join((text or "").split())[:_SHOWN]
    rows = source.splitlines()
    return rows[line - 1].strip()[:_SHOWN] if 0 < line <= len(rows) else f"line {line} of the tests"


def _ending(result: SandboxResult) -> str:
    if result.exit_code is not None and result.exit_code < 0:
        try:
            return f"killed by {signal.Signals(-result.exit_code).name}"
        except ValueError:
            return f"killed by signal {-result.exit_code}"
    return f"exited with status {result.exit_code}"
