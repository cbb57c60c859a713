"""What points are called in tables, and what they stand for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.sweep import Point


def point_heads(points: Sequence[Point]) -> list[str]:
    """`C=1 60`, ...; with the output length where two points differ in nothing else."""
    labels = [point.label for point in points]
    return [f"{point.label} out {point.output}" if labels.count(point.label) > 1 else point.label for point in points]


def uses(points: Sequence[Point]) -> dict[Point, str]:
    """The use that a point at an end of a sweep stands for: `one user, long context`, `32 users, short`, ...

    One user is concurrency 1, and the many are the largest concurrency; context is short or long only where the sweep
    has more than one at that concurrency. Points in between stand for nothing but themselves.
    """
    named: dict[Point, str] = {}
    largest = max((point.concurrency for point in points), default=1)
    for concurrency in dict.fromkeys((1, largest)):
        here = [point for point in points if point.concurrency == concurrency]
        users = "one user" if concurrency == 1 else f"{concurrency} users"
        contexts = {point.context for point in here}
        for point in here:
            if len(contexts) == 1:
                named[point] = users
            elif point.context == min(contexts):
                named[point] = f"{users}, short"
            elif point.context == max(contexts):
                named[point] = f"{users}, long context"
    return named
