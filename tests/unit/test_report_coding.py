"""The coding column: scores alone and under load, what was not judged, and answers worse than the baseline's."""

from __future__ import annotations

import csv
import json
from typing import Any

from ddqueue.domain.sweep import Measure, Point
from ddqueue.report.coding import baseline_scores, coding_text, drops_of, pooled_coding, scores_of
from ddqueue.report.judgement import judge_sweep
from ddqueue.report.results import Format, render
from ddqueue.report.table import host_tables

POINT = Point(1, 60, 256)


def element(passed: int, total: int, concurrency: int = 1, digest: str = "d1", unjudged: int = 0) -> dict[str, Any]:
    """One element of `coding`: `total` problems, of which the first pass and the last were not judged."""
    failed = total - passed - unjudged
    kinds = ["passed"] * passed + ["failed"] * failed + ["not_graded"] * unjudged
    return {
        "suite": "core5",
        "suite_digest": digest,
        "concurrency": concurrency,
        "asked": total,
        "judged": total - unjudged,
        "passed": passed,
        "no_answer": 0,
        "no_code": 0,
        "not_asked": 0,
        "not_graded": unjudged,
        "outcomes": {f"p{at}": [kind] for at, kind in enumerate(kinds)},
    }


def a_row(label: str, *coding: dict[str, Any], **changes: Any) -> dict[str, Any]:
    row = {
        "job_id": 1,
        "host": "rtx6000",
        "parallel": "EP8",
        "visit": 1,
        "control": False,
        "cell_position": 0,
        "cell_hash": label,
        "label": label,
        "hypothesis": None,
        "baseline": label == "baseline",
        "out_of_distribution": False,
        "simulated": False,
        "state": "succeeded",
        "failure": None,
        "evidence": None,
        "acceptance_length": None,
        "points": None,
        "coding_asked": True,
        "coding": list(coding) or None,
    }
    return {**row, **changes}


def test_scores_alone_and_under_load() -> None:
    assert coding_text(a_row("b8", element(5, 5), element(18, 20, 8))) == "5/5 · 18/20 at C=8"
    assert coding_text(a_row("b8", element(3, 5, unjudged=1))) == "3/4 (1 not judged)"
    assert coding_text(a_row("b8", element(0, 5, 32, unjudged=5))) == "not judged at C=32"
    assert coding_text(a_row("b8")) == "not measured"
    assert coding_text(a_row("b8", coding_asked=False)) == "-"


def test_a_drop_is_starred_and_said() -> None:
    rows = [
        a_row("baseline", element(18, 20), element(18, 20, 8)),
        a_row("b8 t4", element(18, 20), element(11, 20, 8), cell_position=1),
        a_row("b16 t4", element(17, 20), element(18, 20, 8), cell_position=2),
    ]
    words = "coding under C=8: 11 of 20 where the baseline has 18; lost: p11, p12, p13, p14, p15, p16, p17"
    judgement = judge_sweep(rows, [], Measure((POINT,)))
    (table,) = host_tables("kimi@1", judgement)
    assert [dict(zip(table.grid.heads, cells, strict=True))["coding"] for cells in table.grid.rows] == [
        "18/20 · 18/20 at C=8",
        "18/20 · 11/20 at C=8 *",
        "17/20 · 18/20 at C=8",
    ]
    assert "*  of coding: worse than the baseline's; the verdict says how" in table.notes
    assert "some repeats were not valid" not in " ".join(table.notes)
    assert [note for note in table.notes if words in note] == [
        f"[2]  not ranked (INVALID, CORRECTNESS_DROP): no valid repeat at C=1 60 (not measured); {words}"
    ]
    document = json.loads(render("kimi@1", judgement, Format.JSON))
    said = [[drop["words"] for drop in job["correctness_drops"]] for job in document["jobs"]]
    assert said == [[], [words], []]
    texts = csv.DictReader(render("kimi@1", judgement, Format.CSV).splitlines())
    assert [row["coding"] for row in texts] == [
        "18/20 · 18/20 at C=8",
        "18/20 · 11/20 at C=8 *",
        "17/20 · 18/20 at C=8",
    ]


def test_only_the_same_servers_accepted_baseline_is_compared_with() -> None:
    cell = a_row("b8", element(11, 20))
    good = element(18, 20)
    assert drops_of(cell, baseline_scores([a_row("baseline", good), cell]))
    assert not drops_of(cell, baseline_scores([a_row("baseline", good, host="b300"), cell]))
    assert not drops_of(cell, baseline_scores([a_row("baseline", good, parallel="TP8"), cell]))
    assert not drops_of(cell, baseline_scores([a_row("baseline", good, state="running"), cell]))
    assert not drops_of(cell, baseline_scores([a_row("baseline", element(18, 20, digest="d2")), cell]))
    assert not drops_of(a_row("baseline", element(11, 20)), baseline_scores([a_row("baseline", good)]))


def test_visits_are_pooled_problem_by_problem() -> None:
    visits = [a_row("b8", element(2, 2), element(1, 2, 8)), a_row("b8", element(1, 2), visit=2), a_row("b8", visit=3)]
    pooled = {"coding": pooled_coding(visits)}
    alone, loaded = scores_of(pooled)
    assert alone.outcomes == {"p0": ("passed", "passed"), "p1": ("passed", "failed")}
    assert (alone.passed, alone.judged, loaded.passed, loaded.judged) == (3, 4, 1, 2)
    assert [one["passed"] for one in pooled["coding"] or ()] == [3, 1]
    assert pooled_coding([a_row("b8")]) is None
