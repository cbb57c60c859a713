"""A sweep judged: verdicts in the table and in JSON, noise and drift, and who is recommended for which use."""

from __future__ import annotations

import csv
import json
import math
from random import Random

import pytest
from report_world import LONG, MANY, ONE, SweepRows, steady

from ddqueue.domain.comparison import CellComparison, Estimate, StandardError
from ddqueue.domain.marks import Mark
from ddqueue.domain.noise import Spread
from ddqueue.domain.statistics import Difference
from ddqueue.domain.student import t_quantile
from ddqueue.domain.sweep import Point, Repeats
from ddqueue.domain.verdict import Unranked
from ddqueue.report.leaders import leaders_of, margin_words
from ddqueue.report.noise_notes import noise_notes
from ddqueue.report.point_names import uses
from ddqueue.report.results import Format, render
from ddqueue.report.table import host_tables
from ddqueue.report.verdicts import MARK_WORDS, verdict_notes

POINTS = (ONE, LONG, MANY)
TRAINED = (351, 312, 495, 399, 230, 88, 25, 33)
COLLAPSED = (671, 1650, 321, 226, 40, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7)


def a_verdict(rows: SweepRows, label: str) -> tuple[str, list[str]]:
    """What stands in the row's column, and the note that its number leads to."""
    judgement = rows.judged()
    found = verdict_notes(judgement.cells, judgement.points)
    (cell,) = [cell for cell in judgement.cells if cell.measured.label == label]
    words = found.words[cell.measured.key]
    number = words.partition(" ")[2]
    return words, [note.removeprefix(f"{number}  ") for note in found.notes if number and note.startswith(number)]


def test_every_mark_has_words() -> None:
    assert set(MARK_WORDS) == set(Mark)


def test_a_good_cell_is_ranked_and_nothing_is_said() -> None:
    rows = SweepRows(ONE)
    rows.visit("b8", steady(100.0)[0])
    assert a_verdict(rows, "b8") == ("yes", [])


def test_each_reason_is_named_below_the_table() -> None:
    rows = SweepRows(*POINTS)
    everywhere = steady(100.0, points=POINTS)[0]
    rows.visit("few", {**everywhere, MANY: [5.0, 5.1]})
    rows.visit("partly", {ONE: [5.0, 5.1, 5.2], LONG: [5.0, 5.1, 5.2]})
    rows.visit("invalid", everywhere, reasons=["SHORT_OUTPUT"])
    rows.visit("failed", state="failed", failure="OOM_RUN", evidence="ran out at step 4")
    rows.visit("queued", state="queued")
    assert a_verdict(rows, "few") == (
        "no [1]",
        ["not ranked (TOO_FEW_REPEATS): too few valid repeats (2 at C=32 60; the sweep asks for 3)"],
    )
    assert a_verdict(rows, "partly")[1] == ["not ranked (INVALID): no valid repeat at C=32 60 (not measured)"]
    said = "; ".join(f"no valid repeat at {point.label} (SHORT_OUTPUT)" for point in POINTS)
    assert a_verdict(rows, "invalid")[1] == [f"not ranked (INVALID): {said}"]
    assert a_verdict(rows, "failed")[1] == ["not ranked (FAILED): failed: OOM_RUN; ran out at step 4"]
    assert a_verdict(rows, "queued") == ("no", [])


def test_caveats_and_marks_stand_in_a_note_and_alike_ones_share_it() -> None:
    rows = SweepRows(*POINTS)
    everywhere = steady(100.0, points=POINTS)[0]
    rows.visit("hot", everywhere, marks=["THROTTLED"])
    rows.visit("hot too", everywhere, marks=["THROTTLED"])
    rows.visit("shaky", everywhere)
    rows.visit("shaky", state="failed", failure="OOM_RUN")
    rows.visit("shaky", state="queued")
    rows.visit("shaky", state="cancelled")
    assert a_verdict(rows, "hot") == a_verdict(rows, "hot too") == ("yes [1]", ["ranked, but know: THROTTLED"])
    assert a_verdict(rows, "shaky") == (
        "yes [2]",
        [
            "ranked, but know: 1 of 4 visits failed: OOM_RUN; 1 of 4 visits was cancelled; "
            "1 of 4 visits is still to come"
        ],
    )
    judgement = rows.judged()
    assert verdict_notes(judgement.cells, POINTS).notes[-1] == f"THROTTLED: {MARK_WORDS[Mark.THROTTLED]}"
    for repeat in rows.repeats[3:9]:
        repeat["marks"] = []
    assert a_verdict(rows, "hot")[1] == ["ranked, but know: THROTTLED at C=1 60"]


def test_beyond_its_training_a_collapse_is_unranked_and_acceptance_that_holds_a_caveat() -> None:
    rows = SweepRows(ONE)
    values = steady(100.0)[0]
    rows.visit("b8", values, histogram=TRAINED)
    rows.visit("b64", values, histogram=(1, 2, 3), budget=64)
    rows.visit("bs16", values, histogram=COLLAPSED, out_of_distribution=True)
    rows.visit("bs4", values, histogram=TRAINED[:4], out_of_distribution=True)
    rows.visit(
        "bs32", state="failed", failure="SERVER_CRASHED", evidence="index out of range", out_of_distribution=True
    )
    assert a_verdict(rows, "bs16")[1] == [
        "not ranked (OUT_OF_DISTRIBUTION): out of distribution: it ran, and acceptance collapses at depth 2: 0.27 of"
        " 6735 drafts there were accepted, where 0.80 was to be expected"
    ], "held against the trained cell with the nearest budget"
    assert a_verdict(rows, "bs4") == (
        "yes [2]",
        [
            "ranked, but know: out of distribution: it ran, and acceptance holds down to depth 3, the deepest that was"
            " reached"
        ],
    )
    assert a_verdict(rows, "bs32")[1] == [
        "not ranked (FAILED, OUT_OF_DISTRIBUTION): failed: SERVER_CRASHED; "
        "out of distribution: it did not run, SERVER_CRASHED (index out of range)"
    ]


def test_simulated_cells_are_ranked_among_themselves_only() -> None:
    rows = SweepRows(ONE)
    rows.visit("a", steady(100.0)[0], simulated=True)
    assert a_verdict(rows, "a")[0] == "yes"
    rows.visit("b", steady(100.0)[0])
    assert a_verdict(rows, "a")[1] == ["not ranked (SIMULATED): ran on software GPUs, beside cells on real ones"]


def test_without_a_control_the_noise_is_unknown_and_said_so() -> None:
    rows = SweepRows(ONE)
    rows.visit("b8", steady(100.0)[0])
    assert noise_notes(rows.judged(), "rtx6000") == [
        "no control cell: the noise floor is unknown, for no cell was visited twice: the noise between starts of a"
        " server is unknown, only that within a run is known"
    ]


def through_a_sweep(*factors: float) -> SweepRows:
    """The control cell, slower or faster by a factor each time, with another cell behind each of its visits."""
    rows, random = SweepRows(ONE, MANY), Random(1)
    for factor in factors:
        rows.visit(
            "baseline", {p: [50 * factor * random.gauss(1, 0.001) for _ in range(3)] for p in (ONE, MANY)}, control=True
        )
        rows.visit("b8", {p: [100 * factor * random.gauss(1, 0.001) for _ in range(3)] for p in (ONE, MANY)})
    return rows


def test_the_noise_floor_and_the_control_cells_drift_stand_below_the_table() -> None:
    floor, drift = noise_notes(through_a_sweep(1.0, 0.99, 0.98, 0.97, 0.96, 0.95).judged(), "rtx6000")
    assert floor.startswith("noise floor, from 12 visits of 2 configurations: 6.")
    assert floor.count("% at C=") == 2
    assert drift.startswith("the control cell (baseline) fell by 5.0% over 6 visits (p = 0.0028): results late in the")
    floor, drift = noise_notes(through_a_sweep(1.0, 1.01, 1.0).judged(), "rtx6000")
    assert drift == "the control cell (baseline) has 3 visits with every point: to show a trend it needs 5"


def test_parallelisms_have_noise_and_names_of_their_own() -> None:
    rows = through_a_sweep(1.0, 1.01, 1.0)
    rows.visit("b8", steady(120.0, points=(ONE, MANY))[0], parallel="TP8")
    judgement = rows.judged()
    notes = noise_notes(judgement, "rtx6000")
    assert [note.split(": ")[0] for note in notes] == ["EP8", "EP8", "TP8"]
    (table,) = host_tables("s@1", judgement)
    assert [cells[0] for cells in table.grid.rows] == ["EP8 baseline", "EP8 b8", "TP8 b8"]
    leaders = leaders_of(judgement, "rtx6000")
    assert leaders is not None
    assert leaders.grid.rows[0][2] == "TP8 b8"


def test_a_repeat_that_was_carried_over_belongs_to_the_start_it_was_measured_on() -> None:
    rows = SweepRows(ONE)
    rows.visit("b8", {ONE: [100.0, 101.0, 120.0, 121.0]})
    rows.visit("b9", steady(100.0)[0])
    assert rows.judged().floors == {}
    for repeat in rows.repeats[:2]:
        repeat["start"] = 99
    (floor,) = rows.judged().floors.values()
    assert (floor.visits, floor.cells) == (2, 1)


def test_what_points_stand_for() -> None:
    between = Point(1, 1024, 256)
    assert uses((ONE, between, LONG, Point(8, 60, 256), MANY, Point(32, 4096, 256))) == {
        ONE: "one user, short",
        LONG: "one user, long context",
        MANY: "32 users, short",
        Point(32, 4096, 256): "32 users, long context",
    }
    assert uses((ONE, MANY)) == {ONE: "one user", MANY: "32 users"}
    assert uses((ONE,)) == {ONE: "one user"}
    assert uses((MANY, Point(8, 60, 256))) == {MANY: "32 users"}


def a_race() -> SweepRows:
    """b4 and b8 are level under load; b16 leads alone; the fastest of all is wrong in its answers, or is invalid."""
    rows = SweepRows(*POINTS)
    for start in (0.999, 1.0, 1.001):
        for label, alone, loaded in (("b4", 90, 900), ("b8", 100, 899), ("b16", 110, 600)):
            (values,) = steady(alone * start, points=(ONE, LONG))
            rows.visit(label, {**values, **steady(loaded * start, points=(MANY,))[0]})
        rows.visit("fast", steady(2000.0 * start, points=POINTS)[0], reasons=["WRONG_SERVER"])
    return rows


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((1.035, 1.057), "+4.6% ±1.1%"),
        ((0.94, 0.96), "-5.0% ±1.0%"),
        ((0.96, 1.15), "none shown (-4% to +15%)"),
        ((1.01, 2.23), "+1.0% to +123.0%"),
        (None, "-"),
    ],
)
def test_a_margin_is_never_narrower_than_its_doubt(bounds: tuple[float, float] | None, words: str) -> None:
    estimate = None if bounds is None else an_estimate(*bounds)
    assert margin_words(CellComparison(Difference.DIFFERENT, estimate, 0.01, 0.01, None)) == words


def an_estimate(low: float, high: float) -> Estimate:
    """One whose ratio has these bounds."""
    freedom = 100
    size = math.log(high / low) / 2 / t_quantile(0.975, freedom)
    estimate = Estimate(math.log(low * high) / 2, StandardError((Spread(size**2, freedom),), freedom), n=10)
    assert (estimate.ratio.low, estimate.ratio.high) == pytest.approx((low, high))
    return estimate


def test_recommendations_come_from_ranked_cells_with_runner_up_and_margin() -> None:
    leaders = leaders_of(a_race().judged(), "rtx6000")
    assert leaders is not None
    assert leaders.title == "the fastest on rtx6000, of the 3 configurations ranked out of 4"
    alone, long, many = leaders.grid.rows
    assert alone[:5] == ("one user, short", "C=1 60", "b16", "110.0", "b8")
    assert alone[5].startswith("+10.0% ±")
    assert alone[6] == "beyond noise, floor 0.2%"
    assert long[:3] == ("one user, long context", "C=1 4k", "b16")
    assert many[:5] == ("32 users", "C=32 60", "b4", "900.0", "b8")
    assert many[6] == "within noise, floor 0.2%"


def test_whoever_might_be_the_fastest_as_well_is_named() -> None:
    rows = SweepRows(ONE)
    for start in (0.999, 1.0, 1.001):
        for label in ("a", "b", "c"):
            rows.visit(label, steady(100.0 * start)[0])
    leaders = leaders_of(rows.judged(), "rtx6000")
    assert leaders is not None
    assert leaders.notes == ("C=1 60: not told from a either: c",)


def test_one_ranked_cell_alone_leads_nobody() -> None:
    rows = SweepRows(ONE)
    rows.visit("a", steady(100.0)[0])
    assert leaders_of(rows.judged(), "rtx6000") is None
    assert "fastest" not in render("s@1", rows.judged(), Format.TABLE)


@pytest.mark.parametrize("form", [Format.TABLE, Format.MARKDOWN])
def test_a_person_reads_verdict_noise_and_recommendation(form: Format) -> None:
    text = render("s@1", a_race().judged(), form)
    assert "no [1]" in text
    assert "not ranked (INVALID): no valid repeat at C=1 60 (WRONG_SERVER)" in text
    assert "no control cell" not in text
    assert "noise floor, from 9 visits of 3 configurations: " in text
    assert "the fastest on rtx6000, of the 3 configurations ranked out of 4" in text
    assert "beyond noise, floor 0.2%" in text


def test_programs_get_verdict_noise_drift_and_ranking() -> None:
    document = json.loads(render("s@1", through_a_sweep(1.0, 0.99, 0.98, 0.97, 0.96).judged(), Format.JSON))
    baseline, tree = document["cells"]
    assert (baseline["label"], baseline["ranked"], baseline["reasons"]) == ("baseline", True, [])
    assert tree["verdict"] == "ranked"
    first = document["noise"][0]
    assert (first["host"], first["concurrency"], first["visits"], first["cells"]) == ("rtx6000", 1, 10, 2)
    assert first["floor_fraction"] == pytest.approx(0.05, abs=0.02)
    (drift,) = document["drift"]
    assert (drift["visits"], drift["shown"]) == (5, True)
    assert drift["total_fraction"] == pytest.approx(-0.04, abs=0.005)
    ranking = document["ranking"][0]
    assert (ranking["use"], ranking["places"][0]["name"], ranking["unranked"]) == ("one user", "b8", [])
    against = ranking["places"][1]["first_against_it"]
    assert against["ratio"] == pytest.approx(2.0, abs=0.01)
    assert (against["verdict"], against["beyond_noise"]) == ("different", True)


def test_csv_has_the_verdict_in_each_line() -> None:
    lines = list(csv.DictReader(render("s@1", a_race().judged(), Format.CSV).splitlines()))
    assert [(line["label"], line["ranked"]) for line in lines[:4]] == [
        ("b4", "True"),
        ("b8", "True"),
        ("b16", "True"),
        ("fast", "False"),
    ]
    assert lines[0]["verdict"] == ""
    assert lines[3]["verdict"].startswith("not ranked (INVALID): no valid repeat at C=1 60")


def test_the_rule_of_the_sweep_says_how_many_repeats_are_few() -> None:
    rows = SweepRows(ONE, repeats=Repeats(2, 5))
    rows.visit("b8", {ONE: [100.0, 101.0]})
    (cell,) = rows.judged().cells
    assert cell.verdict.is_ranked
    rows.measure = SweepRows(ONE, repeats=Repeats(3, 5)).measure
    (cell,) = rows.judged().cells
    assert cell.verdict.reasons == (Unranked.TOO_FEW_REPEATS,)
