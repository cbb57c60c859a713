"""Which cells are ranked, every named reason why not, and what is said of a drafter beyond its training."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddqueue.domain.depths import Depths, depths
from ddqueue.domain.failures import Failure
from ddqueue.domain.marks import Mark
from ddqueue.domain.measurement import Invalid
from ddqueue.domain.states import JobState
from ddqueue.domain.sweep import Point, Repeats
from ddqueue.domain.verdict import CellRecord, PointRecord, Unranked, judge

SHORT, LONG = Point(1, 60, 256), Point(32, 4096, 256)
REPEATS = Repeats(3, 10, 0.03)
GOOD = CellRecord(JobState.SUCCEEDED, (PointRecord(SHORT, 3), PointRecord(LONG, 5)))


def test_a_good_cell_is_ranked_and_nothing_is_said() -> None:
    verdict = judge(GOOD, REPEATS)
    assert verdict.is_ranked
    assert (verdict.reasons, verdict.words, verdict.marks) == ((), "", ())


NO_NUMBERS = PointRecord(LONG, 0, (Invalid.SHORT_OUTPUT, Invalid.CACHED_PREFIX))


@pytest.mark.parametrize(
    ("cell", "reason", "words"),
    [
        (replace(GOOD, state=JobState.QUEUED), Unranked.NOT_FINISHED, "queued"),
        (replace(GOOD, state=JobState.RUNNING), Unranked.NOT_FINISHED, "running"),
        (replace(GOOD, state=JobState.CANCELLED), Unranked.CANCELLED, "cancelled"),
        (replace(GOOD, state=JobState.FAILED, failure=Failure.OOM_RUN), Unranked.FAILED, "failed: OOM_RUN"),
        (
            replace(GOOD, state=JobState.UNSUPPORTED, failure=Failure.UNSUPPORTED),
            Unranked.UNSUPPORTED,
            "unsupported: UNSUPPORTED",
        ),
        (
            replace(GOOD, points=(PointRecord(SHORT, 3), NO_NUMBERS)),
            Unranked.INVALID,
            "no valid repeat at C=32 4k (SHORT_OUTPUT, CACHED_PREFIX)",
        ),
        (
            replace(GOOD, points=(PointRecord(SHORT, 0),)),
            Unranked.INVALID,
            "no valid repeat at C=1 60 (not measured)",
        ),
        (
            replace(GOOD, points=(PointRecord(SHORT, 2), PointRecord(LONG, 3))),
            Unranked.TOO_FEW_REPEATS,
            "too few valid repeats (2 at C=1 60; the sweep asks for 3)",
        ),
        (
            replace(GOOD, drop="coding under C=8: 11 of 20 where the baseline has 18"),
            Unranked.CORRECTNESS_DROP,
            "coding under C=8: 11 of 20 where the baseline has 18",
        ),
        (
            replace(GOOD, simulated=True, among_real=True),
            Unranked.SIMULATED,
            "ran on software GPUs, beside cells on real ones",
        ),
    ],
)
def test_every_reason_has_its_name_and_its_words(cell: CellRecord, reason: Unranked, words: str) -> None:
    verdict = judge(cell, REPEATS)
    assert not verdict.is_ranked
    assert verdict.reasons == (reason,)
    assert verdict.words == words


def test_a_sweep_of_simulated_cells_only_is_ranked() -> None:
    assert judge(replace(GOOD, simulated=True), REPEATS).is_ranked


def test_reasons_add_up_but_a_failed_cell_is_asked_no_more() -> None:
    bad = replace(GOOD, points=(PointRecord(SHORT, 1), NO_NUMBERS), drop="coding alone: 3 of 5")
    assert judge(bad, REPEATS).reasons == (Unranked.INVALID, Unranked.TOO_FEW_REPEATS, Unranked.CORRECTNESS_DROP)
    assert judge(replace(bad, state=JobState.FAILED), REPEATS).reasons == (Unranked.FAILED,)


def test_marks_are_caveats_said_once_and_cost_no_place() -> None:
    marked = replace(
        GOOD,
        points=(
            PointRecord(SHORT, 3, marks=(Mark.NO_BENEFIT, Mark.THROTTLED)),
            PointRecord(LONG, 3, marks=(Mark.THROTTLED, Mark.CLOCK_DRIFT)),
        ),
        caveats=("1 of 3 visits failed: OOM_RUN",),
    )
    verdict = judge(marked, REPEATS)
    assert verdict.is_ranked
    assert verdict.marks == (Mark.NO_BENEFIT, Mark.THROTTLED, Mark.CLOCK_DRIFT)
    assert verdict.words == "1 of 3 visits failed: OOM_RUN"


BEYOND = replace(GOOD, out_of_distribution=True)


@pytest.mark.parametrize(
    ("cell", "reasons", "words"),
    [
        (
            replace(BEYOND, state=JobState.FAILED, failure=Failure.SERVER_CRASHED, evidence="index out of range"),
            (Unranked.FAILED, Unranked.OUT_OF_DISTRIBUTION),
            "failed: SERVER_CRASHED; out of distribution: it did not run, SERVER_CRASHED (index out of range)",
        ),
        (
            replace(BEYOND, state=JobState.RUNNING),
            (Unranked.NOT_FINISHED, Unranked.OUT_OF_DISTRIBUTION),
            "running; out of distribution: nothing is known yet",
        ),
        (
            BEYOND,
            (Unranked.OUT_OF_DISTRIBUTION,),
            "out of distribution: it ran; the server reported no acceptance by depth",
        ),
        (
            replace(BEYOND, depths=depths((50,))),
            (Unranked.OUT_OF_DISTRIBUTION,),
            "out of distribution: it ran, and no draft was ever tried",
        ),
        (
            replace(BEYOND, depths=depths((50, 50, 900, 0), (10, 10, 10, 970))),
            (Unranked.OUT_OF_DISTRIBUTION,),
            "out of distribution: it ran, and acceptance collapses at depth 3: "
            "0.00 of 900 drafts there were accepted, where 0.99 was to be expected",
        ),
    ],
)
def test_beyond_its_training_a_cell_gets_a_verdict_of_its_own(
    cell: CellRecord, reasons: tuple[Unranked, ...], words: str
) -> None:
    verdict = judge(cell, REPEATS)
    assert (verdict.reasons, verdict.words) == (reasons, words)


def test_beyond_its_training_a_cell_whose_acceptance_holds_is_ranked_with_a_caveat() -> None:
    holds = replace(BEYOND, depths=depths((100, 200, 300, 400)), caveats=("1 of 2 visits failed: OOM_RUN",))
    verdict = judge(holds, REPEATS)
    assert verdict.is_ranked
    assert verdict.words == (
        "out of distribution: it ran, and acceptance holds down to depth 3, the deepest that was reached;"
        " 1 of 2 visits failed: OOM_RUN"
    )
    assert judge(replace(holds, drop="coding alone: 3 of 5"), REPEATS).reasons == (Unranked.CORRECTNESS_DROP,)
    failed = judge(replace(holds, state=JobState.FAILED), REPEATS)
    assert failed.reasons == (Unranked.FAILED, Unranked.OUT_OF_DISTRIBUTION)


# A drafter trained for blocks of 8, run at 8 and at 16 on one H200, 32 requests of 192 tokens.
TRAINED = (351, 312, 495, 399, 230, 88, 25, 33)
BLOCK_16 = (671, 1650, 321, 226, 40, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7)


def test_a_measured_collapse_is_found_with_a_reference_and_without() -> None:
    held_against = depths(BLOCK_16, TRAINED)
    assert held_against.collapse == 2
    assert held_against.accepted[1] == pytest.approx(595 / 2245)
    assert held_against.expected[1] == pytest.approx(1270 / 1582)
    assert held_against.words == (
        "acceptance collapses at depth 2: 0.27 of 2245 drafts there were accepted, where 0.80 was to be expected"
    )
    assert depths(BLOCK_16).collapse == 2


def test_a_trained_drafter_falls_gently_and_holds() -> None:
    for found in (depths(TRAINED), depths(TRAINED, TRAINED)):
        assert found.collapse is None
        assert found.deepest == 7
    assert depths(TRAINED).reached == (1933, 1582, 1270, 775, 376, 146, 58)


def planted(accept: float, collapse: int, depth_limit: int, verifies: int) -> tuple[int, ...]:
    """The histogram of a drafter that accepts with one probability above the collapse and hardly below it."""
    reached, counts = float(verifies), []
    for depth in range(1, depth_limit + 1):
        further = reached * (accept if depth < collapse else 0.05)
        counts.append(round(reached - further))
        reached = further
    return (*counts, round(reached))


@pytest.mark.parametrize("collapse", [1, 4, 8, 12])
def test_a_planted_collapse_is_found_at_its_depth(collapse: int) -> None:
    reference = planted(0.85, 99, 7, 2000)
    assert depths(planted(0.85, collapse, 15, 20_000), reference).collapse == collapse


def test_without_a_reference_the_depths_above_are_what_a_depth_is_held_against() -> None:
    assert depths(planted(0.85, 8, 15, 20_000)).collapse == 8
    # Bad from the first depth on: only a reference shows it.
    assert depths(planted(0.05, 1, 15, 20_000)).collapse is None


def test_the_few_verifies_that_reach_deep_make_no_collapse() -> None:
    assert depths((0, 0, 0, 3, 0), (10, 10, 10, 10, 60)).collapse is None
    assert depths((0, 0, 0, 300, 0), (10, 10, 10, 10, 60)).collapse == 4


def test_the_share_that_counts_as_a_collapse_can_be_stated() -> None:
    halved = (600, 400)
    assert depths(halved, (100, 900)).collapse == 1
    assert depths(halved, (100, 900), share=0.3).collapse is None


@pytest.mark.parametrize("nothing", [(), (5,), (0, 0, 0)])
def test_a_histogram_without_drafts(nothing: tuple[int, ...]) -> None:
    found = depths(nothing, TRAINED)
    assert isinstance(found, Depths)
    assert found.collapse is None
    assert found.words == "no draft was ever tried"
