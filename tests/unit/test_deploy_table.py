"""What a deployment says at its end, and while it goes on."""

from __future__ import annotations

import pytest

from deploy.errors import BoxRefused
from deploy.narration import Narrator, OneLineAtATime, Outcome, Story
from deploy.table import as_document, heads_and_rows


def told() -> tuple[list[Story], list[str]]:
    """One box that was changed, and one that was refused."""
    lines: list[str] = []
    say = OneLineAtATime(lines.append, width=8)
    good, bad = Narrator("rtx6000", say), Narrator("b300", say)
    with good.step("checks") as step:
        step.tell("warn  clock: 5.0 s ahead")
        step.ended(Outcome.PASSED, "10 checks, 1 warnings")
    with good.step("release") as step:
        step.changed(True, "0.2.0-abc built")
    with good.step("link") as step:
        step.changed(False, "0.2.0-abc")
    good.story.result = "runs 0.2.0-abc"
    with pytest.raises(BoxRefused), bad.step("checks"):
        raise BoxRefused("disk: 5 MiB free; make room\nclock: 40 s behind")
    bad.story.problem = "disk: 5 MiB free; make room\nclock: 40 s behind"
    return [good.story, bad.story], lines


def test_one_table_for_all_boxes() -> None:
    heads, rows = heads_and_rows(told()[0])
    assert heads == ["host", "checks", "release", "link", "time", "result"]
    assert rows[0][:4] == ["rtx6000", "ok", "changed", "unchanged"]
    assert rows[0][-1] == "runs 0.2.0-abc"
    assert rows[1][:4] == ["b300", "FAILED", "-", "-"]
    assert rows[1][-1] == "FAILED: disk: 5 MiB free; make room"


def test_the_document_has_every_step_and_the_whole_problem() -> None:
    document = as_document(told()[0])
    assert document["done"] is False
    good, bad = document["hosts"]
    assert [(step["name"], step["outcome"]) for step in good["steps"]] == [
        ("checks", "passed"), ("release", "changed"), ("link", "unchanged"),
    ]  # fmt: skip
    assert (good["done"], good["problem"]) == (True, None)
    assert (bad["done"], bad["problem"].splitlines()[1]) == (False, "clock: 40 s behind")


def test_steps_are_told_as_they_happen() -> None:
    lines = told()[1]
    assert [line.split("  ", 1)[1].split()[:3] for line in lines] == [
        ["rtx6000", "checks", "..."],
        ["rtx6000", "checks", "passed"],
        ["rtx6000", "release", "changed"],
        ["rtx6000", "link", "unchanged"],
        ["b300", "checks", "failed"],
    ]
