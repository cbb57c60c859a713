"""Visits of a cell and the control cell: their order, their pooled numbers, their rows in the table."""

from __future__ import annotations

import math
from itertools import product
from statistics import fmean, stdev
from typing import Any

import pytest

from ddqueue.domain.configuration import Cell, Parallelism, Speculation
from ddqueue.domain.interleaving import count, turns
from ddqueue.domain.pooling import over_visits
from ddqueue.domain.statistics import mean_interval
from ddqueue.domain.sweep import Control, Measure, Point, Repeats, Sweep, SweepCell, job_count, jobs_of
from ddqueue.report.judgement import judge_sweep
from ddqueue.report.results import Format, render
from ddqueue.report.table import host_tables
from ddqueue.report.visits import pooled

POINT = Point(1, 60, 256)
MEASURE = Measure((POINT,), Repeats(3, 3))
EVERY_SHAPE = list(product(range(1, 7), range(1, 6), (None, 0, 2), (1, 2, 3, 7)))


def written(cells: str, visits: int, control: int | None = None, every: int = 1) -> str:
    """`C1* a1 b1`: cell, visit, and a star for the control cell."""
    return " ".join(
        f"{turn.cell}{turn.visit}{'*' * turn.control}" for turn in turns(list(cells), visits, control, every)
    )


# The order


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        (written("abc", 1), "a1 b1 c1"),
        (written("abc", 2), "a1 b1 c1 c2 b2 a2"),
        (written("ab", 3), "a1 b1 b2 a2 a3 b3"),
        (written("Cab", 2, 0, 2), "C1* a1 b1 C2* b2 a2 C3*"),
        (written("aCb", 2, 1, 2), "C1* a1 b1 C2* b2 a2 C3*"),
        (written("Cabcde", 1, 0, 2), "C1* a1 b1 C2* c1 C3* d1 e1 C4*"),
        (written("Cab", 1, 0, 9), "C1* a1 b1 C2*"),
        # Never more seldom than the others are visited.
        (written("Ca", 4, 0, 9), "C1* a1 C2* a2 a3 C3* a4 C4*"),
        (written("C", 1, 0, 5), "C1*"),
        (written("C", 3, 0, 5), "C1* C2* C3*"),
    ],
)
def test_the_order_of_small_sweeps(order: str, wanted: str) -> None:
    assert order == wanted


@pytest.mark.parametrize(("cells", "visits", "control", "every"), EVERY_SHAPE)
def test_what_every_order_holds(cells: int, visits: int, control: int | None, every: int) -> None:
    control = None if control is None else min(control, cells - 1)
    order = turns(range(cells), visits, control, every)
    assert len(order) == count(cells, visits, None if control is None else every)
    for cell in range(cells):
        own = [turn.visit for turn in order if turn.cell == cell]
        assert own == list(range(1, len(own) + 1)), "visits are numbered in the order run"
        assert len(own) == visits if cell != control else len(own) >= visits
    if control is not None:
        assert [turn.cell == control for turn in order] == [turn.control for turn in order]
        assert order[0].control
        assert order[-1].control
        between = "".join("c" if turn.control else "." for turn in order).split("c")[1:-1]
        assert max((len(gap) for gap in between), default=0) <= every


@pytest.mark.parametrize(("cells", "visits", "control", "every"), [shape for shape in EVERY_SHAPE if shape[1] % 2 == 0])
def test_a_steady_drift_drops_out_of_the_means_of_an_even_number_of_visits(
    cells: int, visits: int, control: int | None, every: int
) -> None:
    order = turns(range(cells), visits, None if control is None else min(control, cells - 1), every)
    places: dict[int, list[int]] = {}
    for place, turn in enumerate(order):
        places.setdefault(turn.cell, []).append(place)
    assert {fmean(own) for own in places.values()} == {(len(order) - 1) / 2}


def a_sweep(visits: int, control: int | None) -> Sweep:
    cells = [SweepCell(Cell("m", "e"), "baseline")]
    cells += [SweepCell(Cell("m", "e", Speculation(8, budget)), f"b{budget}") for budget in (8, 16)]
    return Sweep(
        name="s",
        model="m",
        engine="e",
        hosts=("one", "two"),
        parallel={"one": (Parallelism(8, 8), Parallelism(8)), "two": (Parallelism(8),)},
        cells=tuple(cells),
        measure=Measure((POINT,), visits=visits, control=Control(cells[0].cell.hash, control) if control else None),
    )


def test_jobs_go_host_by_host_and_parallelism_by_parallelism_each_in_the_whole_order() -> None:
    sweep = a_sweep(visits=2, control=2)
    jobs = jobs_of(sweep)
    wanted = [("baseline", 1), ("b8", 1), ("b16", 1), ("baseline", 2), ("b16", 2), ("b8", 2), ("baseline", 3)]
    assert [(job.cell.label, job.visit) for job in jobs] == wanted * 3
    assert [(job.host, job.parallelism.label) for job in jobs[::7]] == [("one", "EP8"), ("one", "TP8"), ("two", "TP8")]
    assert {job.cell.label for job in jobs if job.control} == {"baseline"}
    assert len({(job.cell.cell.hash, job.host, job.parallelism, job.visit) for job in jobs}) == len(jobs)


@pytest.mark.parametrize(("visits", "control"), list(product((1, 2, 5), (None, 1, 3))))
def test_jobs_are_counted_without_being_built(visits: int, control: int | None) -> None:
    sweep = a_sweep(visits, control)
    assert job_count(sweep) == len(jobs_of(sweep))


# Pooled numbers


def test_from_three_visits_on_the_interval_is_over_their_means() -> None:
    # Within a visit the values hardly differ; between starts they do, and that is what the interval must say.
    visits = [[100.0, 100.1, 99.9], [104.0, 104.1, 103.9], [96.0, 96.1, 95.9]]
    interval = over_visits(visits)
    assert interval is not None
    assert interval.n == 3
    assert interval.mean == pytest.approx(100.0)
    # s = 4, t(0.975, 2) = 4.303
    assert interval.half_width == pytest.approx(4.302653 * 4 / math.sqrt(3))
    over_repeats = mean_interval([value for values in visits for value in values])
    assert over_repeats is not None
    assert over_repeats.half_width < interval.half_width / 3


def test_a_visit_without_a_valid_repeat_is_no_visit() -> None:
    assert over_visits([[], [100.0, 102.0], [101.0]]) == mean_interval([100.0, 102.0, 101.0])
    assert over_visits([[100.0], []]) is None
    assert over_visits([]) is None


def test_visits_of_different_length_weigh_the_same() -> None:
    interval = over_visits([[10.0] * 9, [20.0], [30.0]])
    assert interval is not None
    assert interval.mean == 20.0
    assert interval.half_width == pytest.approx(4.302653 * stdev([10, 20, 30]) / math.sqrt(3))


# Rows of the table


def a_row(label: str, visit: int, *values: float, state: str = "succeeded", **changes: Any) -> dict[str, Any]:
    """A visit with one point; 100 correct drafts in as many verifies as its number says."""
    point = {
        "concurrency": 1,
        "context_tokens": 60,
        "output_tokens_asked": 256,
        "n": len(values),
        "n_invalid": 0,
        "mean_tok_s": fmean(values) if values else None,
        "values_tok_s": list(values),
        "verifies": 100 * visit,
        "correct_drafts": 100,
    }
    done = state == "succeeded"
    row = {
        "job_id": visit,
        "host": "rtx6000",
        "parallel": "EP8",
        "cell_hash": label,
        "cell_position": 0 if label == "baseline" else 1,
        "visit": visit,
        "control": label == "baseline",
        "label": label,
        "hypothesis": None,
        "baseline": label == "baseline",
        "out_of_distribution": False,
        "simulated": False,
        "state": state,
        "failure": None,
        "evidence": None,
        "acceptance_length": 1 + 1 / visit if done else None,
        "points": [point] if done else None,
        "coding_asked": True,
    }
    return {**row, **changes}


ROWS = [
    a_row("b8", 1, 140.0, 142.0),
    a_row("baseline", 1, 73.0, 73.2),
    a_row("b8", 2, 144.0, 146.0),
    a_row("baseline", 2, 75.0),
    a_row("baseline", 3, 71.0),
]


def test_one_row_a_configuration_in_the_order_of_the_file() -> None:
    (table,) = host_tables("s@1", judge_sweep(ROWS, [], MEASURE))
    assert table.grid.heads == ("configuration", "C=1 60", "accept", "coding", "ranked", "visits")
    # Means 73.1, 75, 71: s = 2.001, t(0.975, 2) = 4.303; two visits of b8 pool four repeats: s = 2.582, t(., 3) = 3.182
    assert table.grid.rows == (
        ("baseline", "73.0 ±5.0", "1.50", "not measured", "no [1]", "3/3"),
        ("b8", "143.0 ±4.1", "1.67", "not measured", "no [1]", "2/2"),
    )
    assert table.notes[1].startswith("visits: starts of the server that gave numbers, of all; from 3 on the ± is over")


def test_acceptance_of_visits_is_by_sums() -> None:
    (row,) = pooled([a_row("b8", 1, 1.0), a_row("b8", 3, 1.0)])
    assert row["acceptance_length"] == 1 + 200 / 400


def test_by_visit_every_start_has_its_row_in_the_order_run() -> None:
    (table,) = host_tables("s@1", judge_sweep(ROWS, [], MEASURE), by_visit=True)
    assert [(row[0], row[1], row[-1]) for row in table.grid.rows] == [
        ("b8", "141.0 ±12.7", "1"),
        ("baseline", "73.1 ±1.3", "1 (control)"),
        ("b8", "145.0 ±12.7", "2"),
        ("baseline", "75.0 (n=1)", "2 (control)"),
        ("baseline", "71.0 (n=1)", "3 (control)"),
    ]
    assert not any(note.startswith("visits: ") for note in table.notes)


def test_one_visit_each_has_no_column_for_it() -> None:
    for by_visit in (False, True):
        (table,) = host_tables("s@1", judge_sweep([a_row("b8", 1, 140.0)], [], MEASURE), by_visit)
        assert table.grid.heads == ("configuration", "C=1 60", "accept", "coding", "ranked")


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (
            [a_row("b8", 1, 10.0, 10.0), a_row("b8", 2, state="failed", failure="OOM_RUN")],
            ("10.0 ±0.0", "1/2 (OOM_RUN)"),
        ),
        ([a_row("b8", 1, 10.0, 10.0), a_row("b8", 2, state="queued")], ("10.0 ±0.0", "1/2")),
        (
            [a_row("b8", 1, state="queued"), a_row("b8", 2, state="failed", failure="OOM_RUN")],
            ("failed: OOM_RUN", "0/2"),
        ),
        ([a_row("b8", 1, state="cancelled"), a_row("b8", 2, state="running")], ("running", "0/2")),
    ],
)
def test_visits_in_different_states(rows: list[dict[str, Any]], wanted: tuple[str, str]) -> None:
    (table,) = host_tables("s@1", judge_sweep(rows, [], MEASURE))
    ((_, number, *_, visits),) = table.grid.rows
    assert (number, visits) == wanted


def test_hosts_and_parallelisms_are_never_pooled() -> None:
    rows = [a_row("b8", 1, 1.0), a_row("b8", 1, 2.0, parallel="TP8"), a_row("b8", 1, 3.0, host="b300")]
    assert [row["points"][0]["values_tok_s"] for row in pooled(rows)] == [[1.0], [2.0], [3.0]]


def test_csv_has_one_line_a_visit() -> None:
    head, *lines = render("s@1", judge_sweep(ROWS, [], MEASURE), Format.CSV).splitlines()
    assert head.split(",")[2:5] == ["parallel", "visit", "control"]
    assert [line.split(",")[3:5] for line in lines] == [
        ["1", "False"],
        ["1", "True"],
        ["2", "False"],
        ["2", "True"],
        ["3", "True"],
    ]
