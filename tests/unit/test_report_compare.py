"""`ddqueue compare`: what is paired, what is said of each pair, and every mistake in one line."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import pytest
from report_world import LONG, MANY, ONE, SweepRows, steady

from ddqueue.domain.statistics import Difference
from ddqueue.errors import UsageError
from ddqueue.report.comparing import PairComparison, compare_pairs
from ddqueue.report.comparison_report import comparison_document, comparison_text
from ddqueue.report.comparison_words import acceptance_words, pair_words, side_notes
from ddqueue.report.pairs import (
    JudgedSweep,
    Pair,
    against_baselines,
    cell_of_job,
    names_servers,
    two_cells,
    two_jobs,
    two_servers,
    two_sweeps,
)

POINTS = (ONE, LONG, MANY)


def judged(rows: SweepRows, reference: str = "kimi@1", engine: str = "sim") -> JudgedSweep:
    hashes = {row["cell_hash"]: row["label"] for row in rows.rows}
    canonical = {one: {"model": "kimi", "engine": engine, "cell": label} for one, label in hashes.items()}
    return JudgedSweep(reference, rows.judged(), canonical)


def a_sweep(*hosts: str, faster: float = 1.0, cells: tuple[str, ...] = ("b8 t4 w2048", "b12 t6 w2048")) -> SweepRows:
    """The baseline and each cell on each host, visited three times; the last cell is 4.6% faster at the long point."""
    rows = SweepRows(*POINTS)
    for host in hosts or ("rtx6000",):
        for number in range(3):
            start = 1 + 0.002 * (number - 1)
            rows.visit("baseline", steady(50.0 * start, points=POINTS)[0], host=host, control=True)
            for label in cells:
                (values,) = steady(100.0 * start * faster, points=POINTS)
                gain = 1.046 if label == cells[-1] else 1.0
                rows.visit(label, values | {LONG: [value * gain for value in values[LONG]]}, host=host)
    return rows


def only(pairs: list[Pair], **options: Any) -> PairComparison:
    (compared,) = compare_pairs(pairs, **options)
    return compared


def test_two_cells_of_a_sweep_in_one_sentence() -> None:
    compared = only(two_cells(judged(a_sweep()), "b8 t4", "b12"))
    assert compared.pair.names == ("b8 t4 w2048", "b12 t6 w2048")
    assert compared.pair.title == "rtx6000 EP8 kimi@1"
    assert [one.throughput.verdict for one in compared.points] == [
        Difference.NOT_SHOWN,
        Difference.DIFFERENT,
        Difference.NOT_SHOWN,
    ]
    won, rest = pair_words(compared).split("; ")
    assert won.startswith("b12 t6 w2048 beats b8 t4 w2048 at C=1 4k by 4.6% ±0.")
    assert rest == "at C=1 60 and C=32 60 it is within noise (floor 0.4%)"
    # The other way round the same cell wins, by the same.
    assert pair_words(only(two_cells(judged(a_sweep()), "b12", "b8 t4"))).split("; ")[0] == won


def test_the_table_has_acceptance_and_step_time_side_by_side() -> None:
    text = comparison_text(compare_pairs(two_cells(judged(a_sweep()), "b8 t4", "b12")))
    title, head, _, first, long, *_ = text.splitlines()
    assert title == "rtx6000 EP8 kimi@1:  A = b8 t4 w2048, B = b12 t6 w2048"
    heads = ["point", "A tok/s", "B tok/s", "B against A", "noise", "A accept", "B accept", "A step ms", "B step ms"]
    assert re.split(" {2,}", head) == heads
    assert first.split()[:4] == ["C=1", "60", "100.0", "100.0"]
    assert first.split()[-4:] == ["4.00", "4.00", "25.00", "25.00"]
    assert "+4.6% ±0." in long
    assert "beyond noise, floor 0.4%" in long


def test_a_cell_on_two_hosts_and_acceptance_that_agrees() -> None:
    sweep = judged(a_sweep("rtx6000", "b300"))
    assert names_servers(sweep, "rtx6000", "b300/EP8")
    assert not names_servers(sweep, "rtx6000", "b8 t4")
    pairs = two_servers(sweep, "rtx6000", "b300/ep8")
    assert [(pair.title, pair.names) for pair in pairs] == [
        ("baseline EP8 kimi@1", ("rtx6000", "b300")),
        ("b8 t4 w2048 EP8 kimi@1", ("rtx6000", "b300")),
        ("b12 t6 w2048 EP8 kimi@1", ("rtx6000", "b300")),
    ]
    baseline, *trees = compare_pairs(pairs)
    assert baseline.acceptance_agrees is None
    assert [one.acceptance_agrees for one in trees] == [True, True]
    assert acceptance_words(trees[0]) == "acceptance agrees between rtx6000 and b300"
    assert pair_words(trees[0]) == "b300 against rtx6000: at C=1 60, C=1 4k and C=32 60 it is within noise (floor 0.4%)"


def accepting(*means: float, seed: int = 3) -> SweepRows:
    """One cell on two hosts, whose acceptance scatters by 2% around the host's mean."""
    rows, random = SweepRows(*POINTS), Random(seed)
    for host, mean in zip(("rtx6000", "b300"), means, strict=True):
        for _ in range(3):
            accepts = [mean * (1 + random.gauss(0, 0.02)) for _ in range(3)]
            rows.visit("b8 t4 w2048", steady(100.0, points=POINTS)[0], host=host, accepts=accepts)
    return rows


def test_acceptance_that_hangs_on_the_box_is_an_alarm() -> None:
    compared = only(two_servers(judged(accepting(4.5, 3.6)), "rtx6000", "b300"))
    assert compared.acceptance_agrees is False
    text = comparison_text([compared])
    assert "ALARM: acceptance differs between rtx6000 and b300 beyond noise at C=1 60 (4.5" in text
    assert comparison_document([compared])["pairs"][0]["acceptance_agrees"] is False


def test_alarms_keep_to_one_in_twenty_over_all_points_together() -> None:
    alarms = sum(
        only(two_servers(judged(accepting(4.5, 4.5, seed=seed)), "rtx6000", "b300")).acceptance_agrees is False
        for seed in range(100)
    )
    assert alarms <= 10


def test_two_builds_of_the_engine_are_paired_by_all_but_the_engine() -> None:
    old = judged(a_sweep(), "kimi@1", engine="sglang-a")
    new = judged(a_sweep(faster=1.1), "kimi@2", engine="sglang-b")
    pairs = two_sweeps(old, new)
    assert [pair.title for pair in pairs] == [
        f"{label} rtx6000 EP8" for label in ("baseline", "b8 t4 w2048", "b12 t6 w2048")
    ]
    baseline, tree, _ = compare_pairs(pairs)
    assert pair_words(tree).startswith("kimi@2 beats kimi@1 at C=1 60 by 10.0% ±")
    # The baseline is the control cell here and did not move; had it, the box would be in doubt.
    assert pair_words(baseline).startswith("kimi@2 against kimi@1: at ")
    assert side_notes([baseline, tree]) == []


def test_a_control_cell_that_moved_between_sweeps_is_said() -> None:
    old, new = (judged(a_sweep(cells=()), name) for name in ("kimi@1", "kimi@2"))
    slower = a_sweep(cells=())
    for repeat in slower.repeats:
        repeat["output_throughput_tok_s"] *= 0.9
    compared = compare_pairs(two_sweeps(old, judged(slower, "kimi@2")))
    assert side_notes(compared) == [
        "the control cell itself, baseline rtx6000 EP8, differs between kimi@1 and kimi@2 at C=1 60, C=1 4k, C=32 60:"
        " the box may have changed, and not what is compared"
    ]
    assert side_notes(compare_pairs(two_sweeps(old, new))) == []


def test_against_the_baseline_the_margin_over_break_even_stands_beside() -> None:
    sweep = a_sweep()
    for repeat in sweep.repeats:
        repeat["step_time_ms"] = 20.0 if repeat["acceptance_length"] is None else 30.0
    compared = compare_pairs(against_baselines(judged(sweep)))
    assert [one.pair.names for one in compared] == [("baseline", "b8 t4 w2048"), ("baseline", "b12 t6 w2048")]
    assert [(one.break_even.acceptance, one.break_even.margin) for one in compared[0].points] == [(1.5, 2.5)] * 3
    text = comparison_text(compared)
    assert "break-even  margin" in text
    assert pair_words(compared[0]).startswith("b8 t4 w2048 beats baseline at C=1 60 by 100.0% ±")
    assert [one.pair.b.cell.measured.label for one in compare_pairs(against_baselines(judged(sweep), "b12"))] == [
        "b12 t6 w2048"
    ]


def test_jobs_stand_for_their_cells() -> None:
    sweep = judged(a_sweep("rtx6000", "b300"))
    rows = sweep.judgement.rows
    here, there, again = (
        cell_of_job(sweep, row["host"], row["parallel"], row["cell_hash"]) for row in (rows[1], rows[11], rows[4])
    )
    (pair,) = two_jobs(here, there)
    assert pair.names == ("b8 t4 w2048 rtx6000", "b12 t6 w2048 b300")
    with pytest.raises(UsageError, match="both jobs are visits of one configuration, 'b8 t4 w2048'; name two"):
        two_jobs(here, again)


def test_without_a_second_visit_only_runs_are_compared() -> None:
    rows = SweepRows(ONE)
    rows.visit("a", steady(100.0)[0])
    rows.visit("b", steady(110.0)[0])
    compared = only(two_cells(judged(rows), "a", "b"))
    assert pair_words(compared).startswith("b's run beats a's at C=1 60 by 10.0% ±")
    assert "how much one start of a server differs from the next is unknown" in pair_words(compared)
    assert comparison_document([compared])["pairs"][0]["points"][0]["throughput"]["beyond_noise"] is None


def test_a_side_without_numbers_says_why() -> None:
    rows = SweepRows(ONE)
    rows.visit("a", steady(100.0)[0])
    rows.visit("b", state="failed", failure="OOM_CAPTURE", evidence="26/58")
    compared = only(two_cells(judged(rows), "a", "b"))
    assert pair_words(compared) == "b against a: too few numbers to compare"
    assert side_notes([compared]) == ["b on rtx6000 EP8 in kimi@1 is not ranked (FAILED): failed: OOM_CAPTURE"]
    assert json.loads(json.dumps(comparison_document([compared])))["pairs"][0]["b"]["reasons"] == ["FAILED"]


def test_simulated_against_real_is_refused_or_said_loudly() -> None:
    rows = SweepRows(ONE)
    rows.visit("a", steady(100.0)[0], host="rtx6000")
    rows.visit("a", steady(200.0)[0], host="sim", simulated=True)
    pairs = two_servers(judged(rows), "rtx6000", "sim")
    with pytest.raises(UsageError, match=r"^sim is simulated and rtx6000 is not: .*--simulated-against-real$"):
        compare_pairs(pairs)
    with pytest.raises(UsageError, match=r"^sim is simulated and rtx6000 is not"):
        compare_pairs(two_servers(judged(rows), "sim", "rtx6000"))
    compared = compare_pairs(pairs, allow_simulated_against_real=True)
    text = comparison_text(compared)
    assert text.startswith("SIMULATED AGAINST REAL: ")
    assert text.splitlines()[-1].startswith("SIMULATED AGAINST REAL: ")
    assert "a EP8 kimi@1 (SIMULATED AGAINST REAL):" in text
    assert comparison_document(compared)["simulated_against_real"] is True


SWEEP = judged(a_sweep("rtx6000", "b300", cells=("b8 t4 w2048", "b8 t4 none", "b12 t6 w2048")))


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ("b9", "b12", "kimi@1 has no configuration 'b9'; it has baseline, b8 t4 w2048, b8 t4 none, b12 t6 w2048"),
        ("b12 t6 w1024", "b8 t4 none", "kimi@1 has no configuration 'b12 t6 w1024'; did you mean 'b12 t6 w2048' or"),
        ("b8 t4", "b12", "'b8 t4' may be any of 'b8 t4 w2048' and 'b8 t4 none' of kimi@1; write one in full"),
        ("b12", "b12 t6 w2048", "'b12' and 'b12 t6 w2048' are the same configuration, 'b12 t6 w2048'; name two"),
        ("rtx6000", "b12", "'rtx6000' is a host of kimi@1: name two hosts, or two configurations"),
        ("rtx600", "b12", "kimi@1 has no configuration 'rtx600'; did you mean 'rtx6000'?"),
    ],
)
def test_a_mistaken_cell_is_one_line_with_near_names(a: str, b: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        two_cells(SWEEP, a, b)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_mistaken_hosts_and_sweeps() -> None:
    with pytest.raises(
        UsageError, match=r"'rtx6000/TP8' is not one host and parallelism of kimi@1; it has rtx6000/EP8"
    ):
        two_servers(SWEEP, "rtx6000/TP8", "b300")
    with pytest.raises(UsageError, match="the same host and parallelism"):
        two_servers(SWEEP, "rtx6000", "rtx6000/EP8")
    with pytest.raises(UsageError, match="both are kimi@1; name two sweeps or revisions"):
        two_sweeps(SWEEP, SWEEP)
    rows = SweepRows(ONE)
    rows.visit("b99", steady(1.0)[0])
    with pytest.raises(UsageError, match="kimi@1 and other@1 have no configuration in common: baseline, b8 t4 w2048"):
        two_sweeps(SWEEP, judged(rows, "other@1"))
    with pytest.raises(UsageError, match="other@1 has no baseline; submit it with `baseline: true`"):
        against_baselines(judged(rows, "other@1"))
    elsewhere = SweepRows(ONE)
    for host in ("h100", "h200"):
        elsewhere.visit("b8 t4 w2048", steady(1.0)[0], host=host)
    with pytest.raises(UsageError, match="no host with the same parallelism: b300 EP8, rtx6000 EP8 against h100 EP8"):
        two_sweeps(SWEEP, judged(elsewhere, "other@1"))


def test_two_sweeps_of_one_host_each_are_paired_across_hosts() -> None:
    here, there = judged(a_sweep("rtx6000")), judged(a_sweep("b300"), "kimi@2")
    assert [pair.names for pair in two_sweeps(here, there)] == [("rtx6000 kimi@1", "b300 kimi@2")] * 3


def test_sweeps_without_a_common_point_cannot_be_compared() -> None:
    rows = SweepRows(MANY)
    rows.visit("b8 t4 w2048", steady(1.0, points=(MANY,))[0])
    other = SweepRows(ONE)
    other.visit("b8 t4 w2048", steady(1.0)[0])
    pairs = two_sweeps(judged(rows), judged(other, "kimi@2"))
    with pytest.raises(UsageError, match="kimi@1 and kimi@2 have no point in common: C=32 60 against C=1 60"):
        compare_pairs(pairs)
