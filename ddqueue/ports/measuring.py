"""Load, questions and their judgement, and telling whoever watches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ddqueue.domain.coding import Answer, Problem, Score, Suite
from ddqueue.domain.measurement import PointRun
from ddqueue.domain.sweep import Point


class LoadClient(Protocol):
    """Generates load in a process of its own."""

    def run(
        self,
        url: str,
        point: Point,
        repeat: int,
        salt: str,
        should_stop: Callable[[], None],
        warm_up: bool = False,
        prompts: str | None = None,
    ) -> PointRun:
        """One closed-loop run of `point`, its prompts cut from the text file `prompts` if one is named.

        Requests that fail are recorded, never retried.
        """
        ...


class ChatClient(Protocol):
    """Asks coding problems through a server's chat endpoint."""

    def ask(self, url: str, suite: Suite, concurrency: int, should_stop: Callable[[], None]) -> list[Answer]:
        """Every answer, with `concurrency` requests in flight; each problem equally often, and that many in all at
        least. A request that failed is an answer with an `error`, and never sent again."""
        ...


class Grader(Protocol):
    """Runs an answer's code against a problem's hidden tests, where it can do no harm."""

    def grade(self, problem: Problem, code: str) -> Score:
        """PASSED, FAILED, or NOT_GRADED where the grader itself failed."""
        ...


class Progress(Protocol):
    """Tells whoever watches; never fails and never blocks the job."""

    def tell(self, phase: str, text: str) -> None: ...
