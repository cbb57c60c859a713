"""When a cell answers worse than the baseline: by the paired exact test, and by problems that are lost every time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from scipy.stats import binomtest

from ddqueue.domain.coding import Outcome
from ddqueue.domain.correctness import CodingScores, baseline_for, correctness_drop, drops

P, F = Outcome.PASSED, Outcome.FAILED


def scores(passed: Sequence[str], concurrency: int = 1, digest: str = "d1") -> CodingScores:
    """One problem for each word of `passed`: `PPF` passes two of three samples; `-` was not judged, `n` no answer."""
    kinds = {"P": P, "F": F, "-": Outcome.NOT_GRADED, "x": Outcome.NOT_ASKED, "n": Outcome.NO_ANSWER}
    outcomes = {f"p{at}": tuple(kinds[one] for one in word) for at, word in enumerate(passed)}
    return CodingScores("core5", digest, concurrency, outcomes)


def once(passed: int, total: int = 20) -> list[str]:
    """`total` problems asked once, the first of which pass."""
    return ["P"] * passed + ["F"] * (total - passed)


def test_a_host_that_answers_worse_under_load_only() -> None:
    baseline = [scores(once(18)), scores(once(18), 8)]
    cell = [scores(once(18)), scores(once(11), 8)]
    (drop,) = drops(baseline, cell)
    assert (drop.concurrency, drop.passed, drop.judged, drop.baseline_passed) == (8, 11, 20, 18)
    assert drop.lost == tuple(f"p{at}" for at in range(11, 18))
    assert drop.words == (
        "coding under C=8: 11 of 20 where the baseline has 18; lost: p11, p12, p13, p14, p15, p16, p17"
    )


@pytest.mark.parametrize("gained", [0, 1, 2])
def test_eleven_for_eighteen_is_a_drop_whichever_they_are(gained: int) -> None:
    """The cell may pass what the baseline fails, as far as that has failures."""
    cell = ["P"] * (11 - gained) + ["F"] * (7 + gained) + ["P"] * gained + ["F"] * (2 - gained)
    drop = correctness_drop(scores(once(18)), scores(cell))
    assert drop is not None
    assert drop.passed == 11
    assert drop.p_value == pytest.approx(binomtest(7 + gained, 7 + 2 * gained, alternative="greater").pvalue)


@pytest.mark.parametrize(
    "cell",
    [
        once(18),
        once(17),
        once(14),
        ["F"] * 3 + ["P"] * 15 + ["P", "P"],
        once(20),
    ],
)
def test_what_may_be_luck_is_no_drop(cell: list[str]) -> None:
    assert correctness_drop(scores(once(18)), scores(cell)) is None


def test_five_problems_with_four_samples_each() -> None:
    baseline = scores(["PPPP", "PPPP", "PPPP", "PPPP", "PFPF"], 16)
    drop = correctness_drop(baseline, scores(["PPFF", "FFPP", "PPPF", "PFPF", "FFPP"], 16))
    assert drop is not None
    assert (drop.passed, drop.baseline_passed) == (11, 18)
    assert drop.lost == ("p0", "p1", "p3")
    assert correctness_drop(baseline, scores(["PPPP", "PPPP", "PPPP", "PPPF", "PFPF"], 16)) is None


def test_one_problem_lost_in_every_sample() -> None:
    baseline = scores(["PPP", "PPP", "PPP"], 8)
    drop = correctness_drop(baseline, scores(["PPP", "FnF", "PPP"], 8))
    assert drop is not None
    assert drop.p_value > 0.05
    assert drop.lost == ("p1",)
    # Two samples are too few, and so is a baseline that fails it too at times.
    assert correctness_drop(scores(["PP", "PP"]), scores(["PP", "FF"])) is None
    assert correctness_drop(scores(["PPP", "PPF"]), scores(["PPP", "FFF"])) is None
    assert correctness_drop(baseline, scores(["PPP", "FF-", "PPP"], 8)) is None


def test_what_was_not_judged_counts_for_nobody() -> None:
    lost = ["x"] * 9 + ["-"] * 9 + ["F", "F"]
    assert correctness_drop(scores(once(18)), scores(lost)) is None
    assert correctness_drop(scores(["x"] * 20), scores(once(0))) is None
    some = scores(["P-", "nx"])
    assert (some.asked, some.judged, some.passed, some.count(Outcome.NO_ANSWER)) == (4, 2, 1, 1)


def test_no_answer_is_not_passed() -> None:
    drop = correctness_drop(scores(once(18)), scores(["P"] * 11 + ["n"] * 9))
    assert drop is not None
    assert drop.passed == 11


def test_the_baseline_at_the_same_load_else_alone() -> None:
    alone, loaded, other = scores(once(5, 5)), scores(["PP"] * 5, 8), scores(["PP"] * 5, 8, "d2")
    assert baseline_for([alone, loaded], loaded) is loaded
    assert baseline_for([alone, scores(once(5, 5), 32)], loaded) is alone
    assert baseline_for([loaded], scores(["PPP"] * 5, 32)) is None
    assert baseline_for([other], loaded) is None
    assert drops([other], [scores(["FF"] * 5, 8)]) == ()
    (drop,) = drops([alone], [scores(["FF", "FF", "FF", "PP", "PP"], 8)])
    assert drop.words == ("coding under C=8: 4 of 10 where the baseline has 5 of 5 at C=1; lost: p0, p1, p2")


def test_a_baseline_that_was_not_judged_under_load_is_compared_alone() -> None:
    (drop,) = drops([scores(once(5, 5)), scores(["xx"] * 5, 8)], [scores(["FF"] * 5, 8)])
    assert drop.baseline_concurrency == 1
    (alone,) = drops([scores(once(5, 5))], [scores(once(0, 5))])
    assert alone.words == "coding alone: 0 of 5 where the baseline has 5; lost: p0, p1, p2, p3, p4"
