"""From a raw answer to its score: find the code, run it, say what decided."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ddqueue.domain.coding import Answer, Outcome, Problem, Score, Scored, Suite
from ddqueue.domain.extraction import Extraction
from ddqueue.ports import Grader

log = logging.getLogger(__name__)

Extract = Callable[[str | None, str | None, str | None, str], Extraction]
"""Content, reasoning, finish reason and entry point to the code in them: domain.extraction.extract."""


@dataclass(frozen=True)
class Scoring:
    """Scores answers. `scorer` names the versions that do it, and is kept with every score."""

    extract: Extract
    grader: Grader
    scorer: str

    def score(self, suite: Suite, answers: Sequence[Answer], should_stop: Callable[[], None]) -> list[Scored]:
        """Every answer's score, in order. Equal code for a problem is run once: greedy answers often are equal.

        Whatever `should_stop` raises is passed on, between two runs. Raises KeyError for a problem the suite lacks.
        """
        known: dict[tuple[str, str], Score] = {}
        scored = []
        for answer in answers:
            should_stop()
            scored.append(Scored(answer, self._score(suite.problem(answer.problem), answer, known)))
        return scored

    def _score(self, problem: Problem, answer: Answer, known: dict[tuple[str, str], Score]) -> Score:
        if answer.error is not None:
            return Score(Outcome.NOT_ASKED, detail=answer.error)
        found = self.extract(answer.content, answer.reasoning, answer.finish_reason, problem.entry_point)
        rule = f"{found.rule}, truncated" if found.truncated else str(found.rule)
        if found.code is None:
            return Score(found.outcome_if_none or Outcome.NO_CODE, rule, f"finish reason: {answer.finish_reason}")
        key = (problem.name, found.code)
        score = known.get(key) or self._grade(problem, found.code)
        if score.outcome.judged:
            # A fault of the grader may pass: it is not handed on to the other answers.
            known[key] = score
        return replace(score, rule=rule, code=found.code)

    def _grade(self, problem: Problem, code: str) -> Score:
        try:
            return self.grader.grade(problem, code)
        except Exception as error:
            # Whatever the grader's fault, the answer must neither pass nor fail by it.
            log.exception("an answer to %s could not be graded", problem.name)
            return Score(Outcome.NOT_GRADED, detail=f"{type(error).__name__}: {error}")
