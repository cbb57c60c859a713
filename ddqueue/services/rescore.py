"""Score a sweep's stored answers again: after the extractor or the sandbox was mended, without a server or a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ddqueue.domain.coding import Outcome, Score, Suite
from ddqueue.errors import DdqueueError, UsageError
from ddqueue.ports import ScoreStore, StoredAnswer
from ddqueue.services.scoring import Scoring


@dataclass(frozen=True)
class Tally:
    """Answers that passed, of those that say something about the model."""

    passed: int
    judged: int

    @classmethod
    def of(cls, outcomes: Sequence[Outcome | None]) -> Tally:
        """None stands for an answer that was never scored."""
        judged = [outcome for outcome in outcomes if outcome is not None and outcome.judged]
        return cls(judged.count(Outcome.PASSED), len(judged))

    def __str__(self) -> str:
        return f"{self.passed}/{self.judged}"


@dataclass(frozen=True)
class Rescored:
    """One attempt at one concurrency, before and after; `changed` counts the answers with another outcome."""

    job_id: int
    attempt: int
    host: str
    parallel: str
    label: str
    concurrency: int
    old: Tally
    new: Tally
    changed: int


@dataclass(frozen=True)
class Rescore:
    """`load_suite` finds a suite by name or folder."""

    store: ScoreStore
    scoring: Scoring
    load_suite: Callable[[str], Suite]

    def run(self, sweep_id: int, suite: str | None, should_stop: Callable[[], None]) -> list[Rescored]:
        """Judge every stored answer once more, keep both judgements, and say what changed, in the order asked.

        `suite` is the folder to read problems from where the name that was asked for is not known on this machine.
        `should_stop` is called before each answer; nothing is stored when it raises.

        Raises:
            UsageError: there are no answers, or the suite is none, or not the one that was asked.
            DdqueueError: the grader could judge none of them, so that nothing was stored.
        """
        stored = self.store.answers(sweep_id)
        if not stored:
            raise UsageError("the sweep has no stored answers: it asks for no coding checks, or none has run yet")
        scores: dict[int, Score] = {}
        for name, digest in dict.fromkeys((one.suite, one.suite_digest) for one in stored):
            mine = [one for one in stored if (one.suite, one.suite_digest) == (name, digest)]
            scored = self.scoring.score(self._suite(suite, name, digest), [m.answer for m in mine], should_stop)
            scores |= {one.answer_id: score.score for one, score in zip(mine, scored, strict=True)}
        _check_graded(list(scores.values()))
        self.store.add_scores(self.scoring.scorer, scores)
        return _compared(stored, scores)

    def _suite(self, named: str | None, asked: str, digest: str) -> Suite:
        """The problems that were asked: a score by other problems would say nothing about these answers."""
        remedy = "name the folder that holds the problems with --suite"
        try:
            suite = self.load_suite(named or asked)
        except UsageError as error:
            if named is not None:
                raise
            raise UsageError(f"the answers are to the suite {asked}, which is not here ({error}); {remedy}") from error
        if suite.digest != digest:
            raise UsageError(
                f"{named or asked} is not the suite {asked} that was asked: its problems have the digest "
                f"{suite.digest[:12]}, those asked {digest[:12]}; {remedy}"
            )
        return suite


def _check_graded(scores: Sequence[Score]) -> None:
    """A grader that cannot run here must not hide good scores behind a revision without any."""
    graded = [score for score in scores if score.code is not None]
    if graded and all(score.outcome is Outcome.NOT_GRADED for score in graded):
        raise DdqueueError(f"the grader does not work here, so nothing was stored: {graded[0].detail}")


def _compared(stored: Sequence[StoredAnswer], scores: dict[int, Score]) -> list[Rescored]:
    groups: dict[tuple[int, int, int], list[StoredAnswer]] = {}
    for one in stored:
        groups.setdefault((one.job_id, one.attempt, one.answer.concurrency), []).append(one)
    return [
        Rescored(
            job_id=job_id,
            attempt=attempt,
            host=group[0].host,
            parallel=group[0].parallel,
            label=group[0].label,
            concurrency=concurrency,
            old=Tally.of([one.score for one in group]),
            new=Tally.of([scores[one.answer_id].outcome for one in group]),
            changed=sum(one.score is not scores[one.answer_id].outcome for one in group),
        )
        for (job_id, attempt, concurrency), group in groups.items()
    ]
