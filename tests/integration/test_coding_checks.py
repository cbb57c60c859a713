"""A job's coding checks from the question to the score: a scripted model, a real database, the real sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from chat_server import Script, answer, chat_server, chunk, prompt_of
from storage_world import World, a_sweep

from ddqueue import bootstrap
from ddqueue.domain.coding import Answer, Outcome, Problem, Score, Suite
from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.queueing import Claim
from ddqueue.domain.sweep import Coding
from ddqueue.errors import UsageError
from ddqueue.measure.chat import ChatClient
from ddqueue.ports import ConfigurationCheck, Grader
from ddqueue.services.check_coding import CheckCoding
from ddqueue.services.scoring import Scoring
from ddqueue.services.steps import Steps
from ddqueue.services.stopping import AttemptStopped, StopReason, StopSignal

SUITE = Suite(
    "three",
    (
        Problem("double", "Write double(x).", "double", "assert double(2) == 4"),
        Problem("half", "Write half(x).", "half", "assert half(4) == 2"),
        Problem("word", "Write word().", "word", "assert word() == 'ok'"),
    ),
    "digest-3",
)
CODE = {"double": "return x * 2", "half": "return x / 2", "word": "return 'ok'"}


def right(body: Mapping[str, Any]) -> Script:
    """A right answer, after some reasoning."""
    name = prompt_of(body).split()[1].partition("(")[0]
    parameter = "" if name == "word" else "x"
    return answer(f"Here:\n```python\ndef {name}({parameter}):\n    {CODE[name]}\n```\n", "Let me think.")


@dataclass
class Server:
    """A running server as an attempt sees it: `tags` are what it says it is, one call after the other."""

    url: str
    tags: list[str]
    death: AttemptFailure | None = None
    flushed: int = 0

    def check_alive(self) -> None:
        if self.death is not None:
            raise self.death

    def explain(self, error: str) -> AttemptFailure | None:
        self.check_alive()
        return None

    def watch(self) -> None:
        """It never lingers."""

    def confirm(self) -> ConfigurationCheck:
        tag = self.tags.pop(0) if len(self.tags) > 1 else self.tags[0]
        return ConfigurationCheck({}, {"weight_version": tag}, {})

    def flush_cache(self) -> None:
        self.flushed += 1


@dataclass
class Told:
    """What was told to whoever watches."""

    lines: list[str] = field(default_factory=list)

    def tell(self, phase: str, text: str) -> None:
        self.lines.append(f"{phase} {text}".strip())


class BrokenGrader:
    """Fails itself."""

    def grade(self, problem: Problem, code: str) -> Score:
        raise OSError("no sandbox today")


@dataclass
class Bench:
    """One claimed job and everything that checks it."""

    world: World
    claim: Claim
    told: Told = field(default_factory=Told)
    stop: StopSignal = field(default_factory=lambda: StopSignal(600.0))

    def checks(self, grader: Grader | None = None) -> CheckCoding:
        made = bootstrap.scoring()
        scoring = Scoring(made.extract, grader or made.grader, "test 1")
        steps = Steps(self.world.attempts, self.told)
        return CheckCoding(self.world.attempts, ChatClient(), lambda: scoring, lambda name: SUITE, steps, self.stop)

    def run(self, script: Callable[[Mapping[str, Any]], Script], grader: Grader | None = None, **server: Any) -> Server:
        with chat_server(script) as chat:
            running = Server(chat.url, **{"tags": [self.claim.tag], **server})
            self.checks(grader).run(self.claim, running, SUITE)  # type: ignore[arg-type]
        return running

    def outcomes(self) -> dict[int, dict[str, list[str]]]:
        rows = self.world.column("SELECT json_build_array(concurrency, outcomes) FROM coding ORDER BY concurrency")
        return dict(rows)


@pytest.fixture
def bench(database_url: str) -> Iterator[Bench]:
    world = World(database_url)
    sweep = a_sweep()
    world.submit(replace(sweep, measure=replace(sweep.measure, coding=Coding("three", (1, 4)))))
    yield Bench(world, world.claim(world.jobs()[0]))
    world.sql_engine.dispose()


def test_alone_and_under_load(bench: Bench) -> None:
    server = bench.run(right)
    assert bench.outcomes() == {
        1: {"double": ["passed"], "half": ["passed"], "word": ["passed"]},
        4: {name: ["passed", "passed"] for name in ("double", "half", "word")},
    }
    assert bench.told.lines == ["coding C=1", "coding C=4", "grade 9 answers"]
    phases = bench.world.column("SELECT name || ' ' || detail FROM phases ORDER BY seq")
    assert phases == bench.told.lines
    assert server.flushed == 2, "each load begins with an empty prefix cache"
    assert bench.world.column("SELECT DISTINCT scorer FROM scores") == ["test 1"]
    assert bench.world.column("SELECT DISTINCT rule FROM scores") == ["fence"]
    assert bench.world.column("SELECT DISTINCT reasoning FROM answers") == ["Let me think."]


def test_every_way_not_to_pass_is_told_apart(bench: Bench) -> None:
    """Wrong; reasoning only; and a request that failed, which says nothing about the model."""

    def script(body: Mapping[str, Any]) -> Script:
        name = prompt_of(body).split()[1]
        if name.startswith("double"):
            return answer("```python\ndef double(x):\n    return x + 1\n```")
        if name.startswith("half"):
            return answer("", "Hmm. " * 40, "length")
        return right(body)[:2]

    bench.run(script)
    assert bench.outcomes()[4] == {"double": ["failed"] * 2, "half": ["no_answer"] * 2, "word": ["not_asked"] * 2}
    assert bench.world.column("SELECT DISTINCT detail FROM scores WHERE outcome = 'failed'") == [
        "AssertionError at: assert double(2) == 4"
    ]
    (text,) = bench.world.column("SELECT DISTINCT detail FROM scores WHERE outcome = 'not_asked'")
    assert text.startswith("ClosedEarly: ")


def test_a_fault_of_the_grader_is_neither_a_pass_nor_a_fail(bench: Bench) -> None:
    bench.run(right, BrokenGrader())
    assert bench.outcomes()[1] == {name: ["not_graded"] for name in ("double", "half", "word")}
    assert bench.world.column("SELECT DISTINCT detail FROM scores") == ["OSError: no sandbox today"]
    assert bench.world.column("SELECT DISTINCT passed + judged FROM coding") == [0]


def test_equal_code_runs_once(bench: Bench) -> None:
    graded: list[str] = []

    class Counting:
        def grade(self, problem: Problem, code: str) -> Score:
            graded.append(problem.name)
            return Score(Outcome.PASSED, code=code)

    bench.run(right, Counting())
    assert graded == ["double", "half", "word"]


def test_a_server_that_died_is_its_diagnosed_failure_and_what_came_is_kept(bench: Bench) -> None:
    death = AttemptFailure(Failure.OOM_RUN, "Decode out of memory.")

    def script(body: Mapping[str, Any]) -> Script:
        return [] if prompt_of(body).startswith("Write half") else right(body)

    with pytest.raises(AttemptFailure) as raised:
        bench.run(script, death=death)
    assert raised.value is death
    assert bench.world.column("SELECT problem FROM answers WHERE error IS NULL ORDER BY id") == ["double", "word"]
    assert bench.world.one("SELECT count(*) FROM scores") == 0


def test_a_server_that_answers_nothing_has_stalled(bench: Bench) -> None:
    with pytest.raises(AttemptFailure, match="coding C=1: every request failed: ServerDisconnected") as raised:
        bench.run(lambda body: [])
    assert raised.value.failure is Failure.SERVER_STALLED


def test_a_server_that_refuses_is_no_failure_of_the_attempt(bench: Bench) -> None:
    """A model without a chat template: its throughput is measured all the same."""
    refusal = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 16\r\n\r\nno chat template"
    bench.run(lambda body: [refusal])
    assert bench.outcomes()[1] == {name: ["not_asked"] for name in ("double", "half", "word")}


@pytest.mark.parametrize("tags", [["another"], ["mine", "another"]])
def test_another_server_on_the_port(bench: Bench, tags: Sequence[str]) -> None:
    said = [bench.claim.tag if tag == "mine" else tag for tag in tags]
    with pytest.raises(AttemptFailure, match=f"is another, not {bench.claim.tag}") as raised:
        bench.run(right, tags=said)
    assert raised.value.failure is Failure.PORT_BUSY


def test_a_tag_in_an_answer_is_checked_too(bench: Bench) -> None:
    foreign = chunk({}, metadata={"weight_version": "foreign"})
    with pytest.raises(AttemptFailure, match="answers came from \\['foreign'\\]") as raised:
        bench.run(lambda body: [*right(body)[:1], foreign, *right(body)[1:]])
    assert raised.value.failure is Failure.PORT_BUSY


def test_a_stop_ends_the_asking(bench: Bench) -> None:
    def script(body: Mapping[str, Any]) -> Script:
        bench.stop.ask(StopReason.PERSON)
        return [30.0]

    with pytest.raises(AttemptStopped):
        bench.run(script)


def test_a_suite_that_is_not_here_is_found_before_anything_starts(bench: Bench) -> None:
    def missing(name: str) -> Suite:
        raise UsageError(f"there is no coding suite {name!r}")

    checks = replace(bench.checks(), load_suite=missing)
    with pytest.raises(AttemptFailure, match="there is no coding suite 'three'") as raised:
        checks.suite(bench.claim)
    assert raised.value.failure is Failure.BAD_ARGS
    without = replace(bench.claim, measure=replace(bench.claim.measure, coding=None))
    assert checks.suite(without) is None


def test_a_partial_answer_of_a_failed_request_is_not_scored(bench: Bench) -> None:
    one = Answer(
        "double",
        1,
        0,
        asked_at=datetime(2026, 1, 2, tzinfo=UTC),
        duration_s=0.0,
        content="def",
        error="IdleTimeout: silent",
    )
    (scored,) = bench.checks().scoring().score(SUITE, [one], lambda: None)
    assert scored.score == Score(Outcome.NOT_ASKED, detail="IdleTimeout: silent")
