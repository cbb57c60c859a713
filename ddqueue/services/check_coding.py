"""The coding checks of one job, on its running server: ask, keep what came, score it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ddqueue.domain.coding import Answer, Suite
from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.queueing import Claim
from ddqueue.errors import UsageError
from ddqueue.ports import AttemptStore, ChatClient, RunningServer
from ddqueue.services.scoring import Scoring
from ddqueue.services.steps import Steps
from ddqueue.services.stopping import StopSignal

_REFUSED = "HttpError: 4"
"""How an answer's error begins when a healthy server refused the request."""


@dataclass(frozen=True)
class CheckCoding:
    """`load_suite` finds a suite by the name, or the folder, that a sweep gives. `scoring` is made when there is
    something to score: what the sandbox can do here concerns no other job."""

    store: AttemptStore
    chat: ChatClient
    scoring: Callable[[], Scoring]
    load_suite: Callable[[str], Suite]
    steps: Steps
    stop: StopSignal

    def suite(self, claim: Claim) -> Suite | None:
        """The suite that the job's sweep asks for, if any. Raises AttemptFailure(BAD_ARGS) when this host lacks it."""
        coding = claim.measure.coding
        if coding is None:
            return None
        try:
            return self.load_suite(coding.suite)
        except UsageError as error:
            raise AttemptFailure(Failure.BAD_ARGS, f"measure.coding.suite: {error}") from error

    def run(self, claim: Claim, server: RunningServer, suite: Suite) -> None:
        """Ask at each concurrency in turn, keeping what came before the next one, then score all answers.

        What a model gets wrong is no failure of the attempt, and neither is a request or a grader that failed here and
        there. Raises AttemptFailure for a server that ended, or was another one; AttemptStopped; StaleFence.
        """
        coding = claim.measure.coding
        answers: list[Answer] = []
        for concurrency in coding.concurrency if coding else ():
            step = partial(self._ask, claim, server, suite, concurrency)
            answers += self.steps.timed(claim, "coding", step, f"C={concurrency}")
        self.steps.timed(claim, "grade", lambda: self._grade(claim, suite, answers), f"{len(answers)} answers")

    def _ask(self, claim: Claim, server: RunningServer, suite: Suite, concurrency: int) -> list[Answer]:
        self.stop.check()
        server.flush_cache()
        _check_tag(claim, server)
        answers = self.chat.ask(server.url, suite, concurrency, partial(self._go_on, server))
        self.store.record_answers(claim, suite, answers)
        _check_answered(server, concurrency, answers)
        _check_tag(claim, server)
        others = {answer.tag for answer in answers} - {None, claim.tag}
        if others:
            raise AttemptFailure(
                Failure.PORT_BUSY, f"coding C={concurrency}: answers came from {sorted(map(str, others))}"
            )
        return answers

    def _go_on(self, server: RunningServer) -> None:
        """Asked while answers are awaited."""
        self.stop.check()
        server.watch()

    def _grade(self, claim: Claim, suite: Suite, answers: Sequence[Answer]) -> None:
        scoring = self.scoring()
        self.store.record_scores(claim, scoring.scorer, scoring.score(suite, answers, self.stop.check))


def _check_tag(claim: Claim, server: RunningServer) -> None:
    """A streamed chat answer does not say whose it is, so that the server is asked before and after them all."""
    running = server.confirm().effective.get("weight_version")
    if running != claim.tag:
        raise AttemptFailure(Failure.PORT_BUSY, f"coding: the server on {server.url} is {running}, not {claim.tag}")


def _check_answered(server: RunningServer, concurrency: int, answers: Sequence[Answer]) -> None:
    """Raise what the server died of; or that it stalled, when it answered nothing and did not refuse either."""
    server.check_alive()
    errors = [answer.error for answer in answers if answer.error is not None]
    broken = [error for error in errors if not error.startswith(_REFUSED)]
    if not broken:
        return
    diagnosed = server.explain(broken[0])
    if len(broken) == len(answers):
        text = f"coding C={concurrency}: every request failed: {broken[0]}"
        raise diagnosed or AttemptFailure(Failure.SERVER_STALLED, text)
