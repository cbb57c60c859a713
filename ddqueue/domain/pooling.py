"""One interval from several visits of a cell.

Repeats of one visit share a start of the server, and whatever it happened to give: they are closer to each other than
to the repeats of another start. An interval over all repeats would call that closeness precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from statistics import fmean

from ddqueue.domain.statistics import Interval, mean_interval
from ddqueue.domain.sweep import Repeats

FEWEST_VISITS = 3
"""Two visit means give a t interval of one degree of freedom, twelve standard errors wide: no better than none."""


def over_visits(visits: Sequence[Sequence[float]], repeats: Repeats | None = None) -> Interval | None:
    """The 95% t interval of a cell's mean from the values of each of its visits.

    From three visits with values on it is the interval of the visits' means, `n` counting visits; with fewer it is that
    of all values together, which leaves the noise between starts out, widened where `repeats` could stop by themselves.
    How many visits there are hangs on nothing that they gave. None with fewer than two values.
    """
    means = [fmean(values) for values in visits if values]
    if len(means) >= FEWEST_VISITS:
        return mean_interval(means)
    return mean_interval(list(chain.from_iterable(visits)), repeats=repeats)
