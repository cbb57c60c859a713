"""Coding checks: problems, the answers a model gave, and what became of each; nothing here runs code."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

BUILT_IN_SUITES = ("core5",)
"""Names of the suites that come with ddqueue; any other suite is a folder, written with a slash."""


@dataclass(frozen=True)
class Problem:
    """One problem of a suite: what is asked, the function asked for, and tests the model does not see.

    `tests` is Python source that runs after the answer's code; every `assert` in it must hold.
    """

    name: str
    prompt: str
    entry_point: str
    tests: str


@dataclass(frozen=True)
class Suite:
    """A named set of problems. `digest` is equal for equal problems, so that scores of two runs may be compared."""

    name: str
    problems: tuple[Problem, ...]
    digest: str

    def problem(self, name: str) -> Problem:
        """Raises KeyError when the suite has none of that name."""
        return {problem.name: problem for problem in self.problems}[name]


@dataclass(frozen=True)
class Answer:
    """What came back for one problem, as it came: kept raw, so that a fault in the extractor can be mended later.

    `concurrency` requests were in flight; `sample` counts the times that the problem was asked at that concurrency,
    from 0. `content` and `reasoning` are null when the server sent none. `error` is the exception's type and text.
    """

    problem: str
    concurrency: int
    sample: int
    asked_at: datetime
    duration_s: float
    content: str | None = None
    reasoning: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    tag: str | None = None
    error: str | None = None


class Outcome(StrEnum):
    """What became of one answer."""

    PASSED = "passed"
    """Every hidden test held."""
    FAILED = "failed"
    """The code ran and a test did not hold, it raised, or it used more than its limits."""
    NO_CODE = "no_code"
    """There is an answer, and no code in it defines the function asked for."""
    NO_ANSWER = "no_answer"
    """Nothing after the reasoning, or the answer was cut off before any: counted apart from wrong."""
    NOT_ASKED = "not_asked"
    """The request failed: a fault of the server or the network, and no statement about the model."""
    NOT_GRADED = "not_graded"
    """The grader itself failed: never a pass and never a fail."""

    @property
    def judged(self) -> bool:
        """Whether it says something about the model."""
        return self not in (Outcome.NOT_ASKED, Outcome.NOT_GRADED)


@dataclass(frozen=True)
class Score:
    """The outcome of one answer: `rule` says how its code was found, `detail` what decided, `code` what was run."""

    outcome: Outcome
    rule: str = ""
    detail: str = ""
    code: str | None = None


@dataclass(frozen=True)
class Scored:
    """An answer with its score."""

    answer: Answer
    score: Score
