"""A mended extractor scores a stored sweep again, without a server, and both scores stay."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from storage_world import World, a_sweep

from ddqueue import bootstrap
from ddqueue.coding.suites import load_suite
from ddqueue.domain.coding import Answer, Outcome, Problem, Score
from ddqueue.domain.extraction import Extraction, ExtractionRule
from ddqueue.domain.sweep import Coding
from ddqueue.errors import DdqueueError
from ddqueue.services.rescore import Rescore, Rescored, Tally
from ddqueue.services.scoring import Scoring
from ddqueue.storage.rescoring import PostgresScoreStore

ANSWERS = {
    "double": "<think>def double(x): return 0</think>```python\ndef double(x):\n    return x * 2\n```",
    "half": "<think>def half(x): ...</think>```python\ndef half(x):\n    return x / 2\n```",
    "word": "<think>I could not find one.</think>No.",
}
PROBLEMS = [
    {"name": "double", "prompt": "Write double(x).", "entry_point": "double", "tests": "assert double(2) == 4"},
    {"name": "half", "prompt": "Write half(x).", "entry_point": "half", "tests": "assert half(4) == 2"},
    {"name": "word", "prompt": "Write word().", "entry_point": "word", "tests": "assert word() == 'ok'"},
]


def takes_the_first_thought(content: str | None, reasoning: str | None, reason: str | None, name: str) -> Extraction:
    """A broken extractor: what the model considered while it reasoned."""
    thought = (content or "").partition("<think>")[2].partition("</think>")[0]
    return Extraction(thought if thought.startswith("def") else None, ExtractionRule.BARE, False, Outcome.NO_CODE)


@pytest.fixture
def suite_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "three"
    folder.mkdir()
    (folder / "problems.jsonl").write_text("".join(json.dumps(problem) + "\n" for problem in PROBLEMS))
    return folder


@pytest.fixture
def world(database_url: str, suite_folder: Path) -> Iterator[World]:
    """A baseline whose answers at C=1 and C=2 were scored by the broken extractor."""
    world = World(database_url)
    sweep = a_sweep()
    world.submit(replace(sweep, measure=replace(sweep.measure, coding=Coding(str(suite_folder), (1, 2)))))
    claim, suite = world.claim(world.jobs()[0]), load_suite(str(suite_folder))
    answers = [
        Answer(name, concurrency, 0, datetime(2026, 1, 2, tzinfo=UTC), 1.0, text, finish_reason="stop")
        for concurrency in (1, 2)
        for name, text in ANSWERS.items()
    ]
    world.attempts.record_answers(claim, suite, answers)
    broken = Scoring(takes_the_first_thought, bootstrap.scoring().grader, "broken extractor")
    world.attempts.record_scores(claim, broken.scorer, broken.score(suite, answers, lambda: None))
    world.succeed(claim)
    yield world
    world.sql_engine.dispose()


def ddqueue(world: World, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "ddqueue", *arguments],
        env={"DDQUEUE_DATABASE_URL": world.database_url, "PATH": "/usr/bin:/bin", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def asked_by_sql(world: World, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(ddqueue(world, "sql", query, "--format", "json").stdout)
    return rows


def test_both_scores_can_be_read(world: World, suite_folder: Path) -> None:
    history = (
        "SELECT s.revision, s.outcome, s.scorer FROM scores AS s JOIN answers AS a ON a.id = s.answer_id "
        "WHERE a.problem = 'double' AND a.concurrency = 1 ORDER BY s.revision"
    )
    assert [(row["outcome"], row["scorer"]) for row in asked_by_sql(world, history)] == [("failed", "broken extractor")]
    shown = ddqueue(world, "rescore", "kimi-ddtree", "--suite", str(suite_folder)).stdout.splitlines()
    assert shown[0] == "kimi-ddtree@1, scored again"
    assert [line.split() for line in shown[3:5]] == [
        ["1", "1", "rtx6000", "EP8", "baseline", "1", "0/3", "->", "2/3", "3"],
        ["1", "1", "rtx6000", "EP8", "baseline", "2", "0/3", "->", "2/3", "3"],
    ]
    first, second = asked_by_sql(world, history)
    assert (first["revision"], first["outcome"], first["scorer"]) == (1, "failed", "broken extractor")
    assert (second["revision"], second["outcome"]) == (2, "passed")
    assert second["scorer"].startswith("ddqueue 0.")
    assert ", extractor " in second["scorer"]
    newest = asked_by_sql(world, "SELECT concurrency, passed, judged, no_answer, score_revision FROM coding")
    assert [tuple(row.values()) for row in newest] == [(1, 2, 3, 1, 2), (2, 2, 3, 1, 2)]
    assert "2/3 · 2/3 at C=2" in ddqueue(world, "results", "kimi-ddtree").stdout


def test_for_programs(world: World, suite_folder: Path) -> None:
    document = json.loads(ddqueue(world, "rescore", "kimi-ddtree@1", "--suite", str(suite_folder), "--json").stdout)
    assert document["sweep"] == "kimi-ddtree@1"
    first, second = document["cells"]
    assert (first["old"], first["new"], first["changed"]) == (
        {"passed": 0, "judged": 3},
        {"passed": 2, "judged": 3},
        3,
    )
    assert second["concurrency"] == 2


def test_the_suite_must_be_the_one_that_was_asked(world: World, suite_folder: Path) -> None:
    away = ddqueue(world, "rescore", "kimi-ddtree", code=2)
    assert "the answers are to the suite three, which is not here" in away.stderr
    assert "--suite" in away.stderr
    with (suite_folder / "problems.jsonl").open("a") as more:
        more.write(json.dumps({**PROBLEMS[0], "name": "treble"}) + "\n")
    other = ddqueue(world, "rescore", "kimi-ddtree", "--suite", str(suite_folder), code=2)
    assert "is not the suite three that was asked" in other.stderr
    assert world.one("SELECT max(revision) FROM scores") == 1


def rescore(world: World, folder: Path, scoring: Scoring) -> list[Rescored]:
    service = Rescore(PostgresScoreStore(world.sql_engine), scoring, load_suite)
    return service.run(world.reader.sweep("kimi-ddtree").sweep_id, str(folder), lambda: None)


def test_a_grader_that_does_not_work_here_hides_no_score(world: World, suite_folder: Path) -> None:
    class Absent:
        def grade(self, problem: Problem, code: str) -> Score:
            return Score(Outcome.NOT_GRADED, detail="no walls stand here")

    with pytest.raises(DdqueueError, match="nothing was stored: no walls stand here"):
        rescore(world, suite_folder, replace(bootstrap.scoring(), grader=Absent()))
    assert world.one("SELECT max(revision) FROM scores") == 1


def test_a_second_rescore_changes_nothing_and_is_kept_too(world: World, suite_folder: Path) -> None:
    rescore(world, suite_folder, bootstrap.scoring())
    again = rescore(world, suite_folder, bootstrap.scoring())
    assert [(one.old, one.new, one.changed) for one in again] == [(Tally(2, 3), Tally(2, 3), 0)] * 2
    assert world.column("SELECT DISTINCT max(revision) FROM scores GROUP BY answer_id") == [3]


def test_a_sweep_without_answers(world: World) -> None:
    world.submit(a_sweep("other"))
    done = ddqueue(world, "rescore", "other", code=2)
    assert "the sweep has no stored answers" in done.stderr
