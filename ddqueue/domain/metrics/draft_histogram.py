"""How many drafts each verify accepted, and the acceptance by depth that follows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, zip_longest

from ddqueue.domain.measurement import RequestRecord
from ddqueue.domain.metrics.metric import Metric
from ddqueue.domain.metrics.window import completed

METRIC = Metric(
    tag="draft_histogram",
    unit="verifies",
    formula="entry k counts the verifies that accepted exactly k drafts",
    source="spec_correct_drafts_histogram of SGLang's meta_info, added up over the completed requests",
)


def draft_histogram(requests: Sequence[RequestRecord]) -> tuple[int, ...] | None:
    """The requests' histograms added entry by entry; they may differ in length. None when none was reported."""
    reported = [request.draft_histogram for request in completed(requests) if request.draft_histogram is not None]
    if not reported:
        return None
    return tuple(sum(column) for column in zip_longest(*reported, fillvalue=0))


def acceptance_by_depth(histogram: Sequence[int]) -> tuple[float | None, ...]:
    """For each depth 1, 2, ...: the share of verifies that accepted the draft there, of those that got that far.

    It shows where a drafter collapses beyond the depth it was trained for. None at a depth that was never reached.
    """
    reached = [sum(histogram[depth:]) for depth in range(len(histogram))]
    return tuple(later / earlier if earlier else None for earlier, later in pairwise(reached))
