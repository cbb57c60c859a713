"""The table of a sweep: numbers, marks, and rows without numbers."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from typing import Any

import pytest

from ddqueue.domain.latency_limits import LatencyLimits
from ddqueue.domain.sweep import Measure, Point, Repeats
from ddqueue.report.grid import LINE_COLUMNS, Grid, as_markdown, as_plain, width, wrapped
from ddqueue.report.judgement import Judgement, judge_sweep
from ddqueue.report.point_names import point_heads
from ddqueue.report.results import Format, render
from ddqueue.report.table import host_tables, throughput

POINTS = (Point(1, 60, 256), Point(1, 1024, 256), Point(32, 4096, 256))
FIXED = Repeats(3, 3)


def a_point(point: Point, *values: float, n_invalid: int = 0) -> dict[str, Any]:
    return {
        "concurrency": point.concurrency,
        "context_tokens": point.context,
        "output_tokens_asked": point.output,
        "n": len(values),
        "n_invalid": n_invalid,
        "mean_tok_s": sum(values) / len(values) if values else None,
        "values_tok_s": list(values),
    }


def a_row(label: str, **changes: Any) -> dict[str, Any]:
    """A job that succeeded, with all points."""
    row = {
        "job_id": 1,
        "host": "rtx6000",
        "parallel": "EP8",
        "visit": 1,
        "control": False,
        "cell_position": 0,
        "cell_hash": label.encode().hex(),
        "label": label,
        "hypothesis": "small budgets win at C=32",
        "baseline": False,
        "out_of_distribution": False,
        "simulated": False,
        "state": "succeeded",
        "failure": None,
        "evidence": None,
        "acceptance_length": 4.506,
        "coding_asked": True,
        "points": [
            a_point(POINTS[0], 144.0, 145.0, 146.0),
            a_point(POINTS[1], 109.2),
            a_point(POINTS[2], 456.8, 456.8, n_invalid=1),
        ],
    }
    return {**row, **changes}


def without_numbers(label: str, state: str, failure: str | None = None, **changes: Any) -> dict[str, Any]:
    return a_row(label, state=state, failure=failure, points=None, acceptance_length=None, **changes)


def judged(*rows: dict[str, Any]) -> Judgement:
    """Without the repeats behind the numbers: what these tests are about is how the numbers stand in the table."""
    return judge_sweep(rows, [], Measure(POINTS, FIXED))


def test_the_table_of_one_host() -> None:
    rows = [
        without_numbers("baseline", "queued"),
        a_row("b8 t4 w2048"),
        a_row("b8 t4 none", coding_asked=False, points=[a_point(POINTS[0], 10.0, 10.0)], acceptance_length=None),
        without_numbers("bs16 b32 t4 w2048", "failed", "OOM_CAPTURE", out_of_distribution=True),
        without_numbers("b16 t4 w2048", "running"),
    ]
    title, hypothesis, *lines = render("kimi@2", judged(*rows), Format.TABLE).splitlines()
    assert title == "kimi@2 on rtx6000, EP8"
    assert hypothesis == "hypothesis: small budgets win at C=32"
    cells = [re.split(" {2,}", line) for line in lines]
    assert [cells[0], *cells[2:7]] == [
        ["configuration", "C=1 60", "C=1 1k", "C=32 4k", "accept", "coding", "ranked"],
        ["baseline", "queued", "-", "-", "-", "-", "no"],
        ["b8 t4 w2048", "145.0 ±2.5", "109.2 (n=1)", "456.8 ±0.0 *", "4.51", "not measured", "no [1]"],
        ["b8 t4 none", "10.0 ±0.0", "not measured", "not measured", "-", "-", "no [1]"],
        ["bs16 b32 t4 w2048 [ood]", "failed: OOM_CAPTURE", "-", "-", "-", "-", "no [2]"],
        ["b16 t4 w2048", "running", "-", "-", "-", "-", "no"],
    ]
    assert lines[7:10] == [
        "C=n: output tokens/s at concurrency n and that context, mean ± half the 95% t interval over repeats",
        "[ood]  out of distribution: the drafter was not trained for this block size",
        "*  some repeats were not valid and are left out; measurements.reasons says why",
    ]


def limited(point: dict[str, Any], requests_s: float | None, output_tok_s: float | None) -> dict[str, Any]:
    more = {"verifies": None, "correct_drafts": None}
    return {**point, **more, "goodput_requests_s": requests_s, "goodput_output_tok_s": output_tok_s}


def test_goodput_has_a_table_of_its_own_where_the_sweep_sets_limits() -> None:
    points = [limited(a_point(POINTS[0], 100.0, 100.0), 0.5, 50.0), limited(a_point(POINTS[1], 80.0, 80.0), 0.0, 0.0)]
    twice = [
        a_row("b8 t4 w2048", points=points),
        a_row("b8 t4 w2048", job_id=2, visit=2, points=[limited(a_point(POINTS[0], 100.0), 0.25, 30.0)]),
        without_numbers("b4 t4 w2048", "failed", "OOM_CAPTURE"),
    ]
    measure = Measure(POINTS, FIXED, goodput=LatencyLimits(2000, 50))
    judgement = judge_sweep(twice, [], measure)
    lines = render("kimi@2", judgement, Format.TABLE).splitlines()
    start = lines.index("goodput on rtx6000: TTFT ≤ 2000 ms and TPOT ≤ 50 ms")
    assert [re.split(" {2,}", line.strip()) for line in (lines[start + 1], lines[start + 3])] == [
        ["configuration", "C=1 60", "C=1 1k", "C=32 4k"],
        ["b8 t4 w2048", "0.38/s (40%)", "0.00/s (0%)", "-"],
    ]
    assert "b4 t4 w2048" not in "\n".join(lines[start:])
    assert "#### goodput on rtx6000" in render("kimi@2", judgement, Format.MARKDOWN)
    document = json.loads(render("kimi@2", judgement, Format.JSON))
    assert document["goodput_limits"] == {"ttft_ms": 2000, "tpot_ms": 50, "e2e_ms": None}
    assert document["jobs"][0]["points"][0]["goodput_requests_s"] == 0.5
    first, *_ = csv.DictReader(io.StringIO(render("kimi@2", judgement, Format.CSV)))
    assert (first["C=1 60 goodput requests/s"], first["C=1 60 goodput tok/s"]) == ("0.5", "50.0")
    assert (first["C=32 4k goodput requests/s"], first["C=32 4k goodput tok/s"]) == ("", "")


def test_without_limits_nothing_is_said_of_goodput() -> None:
    for form in Format:
        told = render("kimi@2", judged(a_row("b8 t4 w2048")), form).replace('"goodput_limits": null', "")
        assert "goodput" not in told


def test_coding_has_a_column_only_where_it_was_asked_for() -> None:
    (table,) = host_tables("kimi@1", judged(a_row("b8", coding_asked=False)))
    assert table.grid.heads == ("configuration", "C=1 60", "C=1 1k", "C=32 4k", "accept", "ranked")


def test_notes_stay_within_a_terminal() -> None:
    lines = wrapped(f"[1]  {'some words ' * 30}").splitlines()
    assert [line[:5] for line in lines] == ["[1]  ", "     ", "     "]
    assert all(width(line) <= LINE_COLUMNS for line in lines)
    assert wrapped("one\x1b[31m line\nmore") == "one\\x1b[31m line\\nmore"


def test_simulated_is_said_in_the_title_and_on_every_row() -> None:
    (table,) = host_tables("kimi@1", judged(a_row("b8", simulated=True), a_row("b16", simulated=True)))
    assert table.title == "kimi@1 on rtx6000, EP8 (simulated)"
    assert [row[0] for row in table.grid.rows] == ["b8 [simulated]", "b16 [simulated]"]
    assert "[simulated]  ran on software GPUs: not a measurement of hardware" in table.notes
    (mixed,) = host_tables("kimi@1", judged(a_row("b8", simulated=True), a_row("b16")))
    assert mixed.title == "kimi@1 on rtx6000, EP8 (partly simulated)"


def test_hosts_have_tables_of_their_own_and_parallelisms_share_one() -> None:
    rows = [a_row("b8"), a_row("b8", parallel="TP8"), a_row("b8", host="b300", parallel="TP8")]
    first, second = host_tables("kimi@1", judged(*rows))
    assert (first.title, second.title) == ("kimi@1 on rtx6000, EP8, TP8", "kimi@1 on b300, TP8")
    assert [row[0] for row in first.grid.rows] == ["EP8 b8", "TP8 b8"]
    assert [row[0] for row in second.grid.rows] == ["b8"]


def test_points_that_differ_only_in_output_are_told_apart() -> None:
    points = [Point(1, 60, 256), Point(1, 60, 1024), Point(1, 1024, 256)]
    assert point_heads(points) == ["C=1 60 out 256", "C=1 60 out 1024", "C=1 1k"]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, "not measured"),
        (a_point(POINTS[0], n_invalid=3), "invalid *"),
        (a_point(POINTS[0], 100.0), "100.0 (n=1)"),
        # s = 1, t(0.975, 2) = 4.303: 4.303 / sqrt(3) = 2.48
        (a_point(POINTS[0], 99.0, 100.0, 101.0), "100.0 ±2.5"),
    ],
)
def test_throughput(found: dict[str, Any] | None, text: str) -> None:
    assert throughput(found, FIXED) == text


def test_an_interval_that_could_stop_itself_is_wider() -> None:
    found = a_point(POINTS[0], 99.0, 100.0, 101.0)
    assert throughput(found, Repeats(3, 10)) == "100.0 ±2.9"
    # The number of visits hangs on nothing that they gave.
    visits = {**found, "visits_tok_s": [[99.0], [100.0], [101.0]]}
    assert throughput(visits, Repeats(3, 10)) == "100.0 ±2.5"


def test_json_holds_numbers_and_the_interval() -> None:
    document = json.loads(render("kimi@1", judged(a_row("b8"), without_numbers("b9", "queued")), Format.JSON))
    measured, queued = document["jobs"]
    assert (document["sweep"], queued["state"], queued["points"], queued["coding"]) == ("kimi@1", "queued", [], None)
    low, high = measured["points"][0]["low_tok_s"], measured["points"][0]["high_tok_s"]
    assert low == pytest.approx(145 - 4.302653 / math.sqrt(3))
    assert high == pytest.approx(145 + 4.302653 / math.sqrt(3))
    assert measured["points"][1]["low_tok_s"] is None


def test_csv_holds_empty_fields_for_what_was_not_measured() -> None:
    text = render("kimi@1", judged(a_row("b8"), without_numbers("b9", "failed", "OOM_LOAD")), Format.CSV)
    measured, failed = csv.DictReader(text.splitlines())
    assert measured["C=1 60 tok/s"] == "145.0"
    assert float(measured["C=1 60 +-tok/s"]) == pytest.approx(4.302653 / math.sqrt(3))
    assert (measured["C=1 1k n"], measured["C=1 1k +-tok/s"], measured["coding"]) == ("1", "", "")
    assert (failed["failure"], failed["C=1 60 tok/s"], failed["acceptance_length"]) == ("OOM_LOAD", "", "")


def test_markdown_escapes_what_would_break_the_table() -> None:
    text = render("kimi@1", judged(a_row("env.X=a|b", simulated=True)), Format.MARKDOWN)
    assert text.startswith("### kimi@1 on rtx6000, EP8 (simulated)\n\nhypothesis: small budgets win at C=32\n\n|")
    assert "| env.X=a\\|b [simulated] | 145.0 ±2.5 |" in text


def test_stored_text_cannot_steer_a_terminal_or_break_a_line() -> None:
    grid = Grid(("a",), (("\x1b[32mgreen\nline",),))
    assert as_plain(grid).splitlines()[2] == "\\x1b[32mgreen\\nline"
    assert as_markdown(grid).splitlines()[2] == "| \\x1b[32mgreen\\nline |"


def test_wide_characters_keep_columns_aligned() -> None:
    assert as_plain(Grid(("a", "b"), (("模型", "x"), ("m", "y")))).splitlines() == [
        "a     b",
        "----  -",
        "模型  x",
        "m     y",
    ]
