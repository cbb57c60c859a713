"""Whether two runs of one sweep have the same winners, by what `ddqueue results --json` says of each."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from report_world import ONE, SweepRows, steady

from ddqueue.report.results_document import results_document

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from installed import covered_s, span_s
from winners import Agreement, held_together


def rankings(wobble: float = 0.001, given_up: Sequence[str] = (), **means: float) -> list[Mapping[str, Any]]:
    """Of a sweep on one host whose baseline is visited three times; starts of one server differ by `wobble`."""
    rows = SweepRows(ONE)
    for start in (1 - wobble, 1.0, 1 + wobble):
        rows.visit("baseline", steady(50.0 * start)[0], control=True)
    for label, mean in means.items():
        rows.visit(label, steady(mean)[0], state="pruned" if label in given_up else "succeeded")
    found: list[Mapping[str, Any]] = results_document("forty@1", rows.judged())["ranking"]
    return found


PLAIN = rankings(a=100.0, b=99.9, c=90.0)


@pytest.mark.parametrize(
    ("second", "winner", "agreement", "behind"),
    [
        (rankings(a=101.0, b=100.0, c=91.0), "a", Agreement.SAME, 0.0),
        (rankings(a=99.9, b=100.0, c=90.0), "b", Agreement.TIED, 0.001),
        (rankings(a=90.0, b=100.0, c=90.0), "b", Agreement.TIED_IN_ONE, 0.001),
        (rankings(0.05, a=99.0, b=90.0, c=100.0), "c", Agreement.TIED_IN_ONE, 0.1),
        (rankings(a=90.0, b=90.0, c=100.0), "c", Agreement.DIFFERENT, 0.1),
        (rankings(a=90.0, b=99.0, c=80.0, given_up=["a"]), "b", Agreement.TIED_IN_ONE, 0.001),
        (rankings(a=100.0, b=80.0, c=99.0, given_up=["a"]), "c", Agreement.DIFFERENT, 0.1),
    ],
)
def test_winners_are_held_together_by_both_runs_verdicts(
    second: list[Mapping[str, Any]], winner: str, agreement: Agreement, behind: float
) -> None:
    (one,) = held_together(PLAIN, second)
    assert (one.host, one.concurrency, one.context, one.output) == ("rtx6000", 1, 60, 256)
    assert (one.first, one.second, one.agreement) == ("a", winner, agreement)
    assert one.behind == pytest.approx(behind, abs=1e-6)


def test_a_winner_that_the_first_run_did_not_rank_is_behind_by_nobody_knows_what() -> None:
    (one,) = held_together(rankings(a=100.0, c=99.0, given_up=["c"]), rankings(a=80.0, c=100.0))
    assert (one.second, one.agreement, one.behind) == ("c", Agreement.DIFFERENT, None)


def test_a_run_that_ranked_nothing_has_no_winner() -> None:
    with pytest.raises(ValueError, match="nothing to hold together at"):
        held_together(PLAIN, [])
    with pytest.raises(ValueError, match="nothing to hold together at"):
        held_together(PLAIN, [{**PLAIN[0], "places": []}])


def phase(at_s: float, duration_s: float) -> dict[str, Any]:
    return {"started_at": datetime(2025, 1, 2, tzinfo=UTC) + timedelta(seconds=at_s), "duration_s": duration_s}


def test_phases_cover_each_second_once() -> None:
    phases = [phase(10, 5), phase(0, 4), phase(2, 4), phase(11, 1)]
    assert covered_s(phases) == 6 + 5
    assert span_s(phases) == 15
    assert covered_s([]) == 0
