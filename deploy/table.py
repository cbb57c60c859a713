"""All boxes of a run in one table, and as one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deploy.narration import Outcome, Story

_MARKS = {Outcome.CHANGED: "changed", Outcome.UNCHANGED: "unchanged", Outcome.PASSED: "ok", Outcome.FAILED: "FAILED"}


def heads_and_rows(stories: Sequence[Story]) -> tuple[list[str], list[list[str]]]:
    """One row a box, one column a step that any box came to; `-` where a box did not."""
    names = list(dict.fromkeys(step.name for story in stories for step in story.steps))
    rows = []
    for story in stories:
        outcomes = {step.name: _MARKS[step.outcome] for step in story.steps}
        marks = [outcomes.get(name, "-") for name in names]
        rows.append([story.name, *marks, f"{story.took_s:.1f} s", _result(story)])
    return ["host", *names, "time", "result"], rows


def as_document(stories: Sequence[Story]) -> dict[str, Any]:
    """For programs."""
    return {
        "done": all(story.done for story in stories),
        "hosts": [
            {
                "name": story.name,
                "place": story.place,
                "done": story.done,
                "result": story.result,
                "problem": story.problem,
                "took_s": round(story.took_s, 1),
                "steps": [
                    {
                        "name": step.name,
                        "outcome": step.outcome.value,
                        "text": step.text,
                        "took_s": round(step.took_s, 1),
                    }
                    for step in story.steps
                ],
            }
            for story in stories
        ],
    }


def _result(story: Story) -> str:
    if story.problem is None:
        return story.result
    first = story.problem.splitlines()
    return f"FAILED: {first[0] if first else ''}"
