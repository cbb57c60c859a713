"""What grew: a pure function of the looks."""

from __future__ import annotations

from collections.abc import Iterator

from .look import DISPATCHER, NOT_JUDGED, PROCESSES, SESSIONS, SHARED_MEMORY, TEMPORARY, WORKER, Look
from .run import Finished

MEMORY_FACTOR = 1.10
"""What memory may come to, of what it was after the warm-up."""

_GONE_AT_THE_END = (PROCESSES, SESSIONS, TEMPORARY, SHARED_MEMORY)


def grown(finished: Finished) -> list[str]:
    """A line for each thing that was more at a later look than after the warm-up, and for what the end left."""
    warm, *later = finished.looks
    found = [line for look in later for line in (*_sizes(warm, look), *_counts(warm, look))]
    for name in _GONE_AT_THE_END:
        if finished.ended.counts.get(name, 0) > finished.before.counts.get(name, 0):
            found.append(
                f"{finished.ended.label}: {name} {finished.before.counts[name]} before"
                f" and {finished.ended.counts[name]} after"
            )
    return found


def _sizes(warm: Look, look: Look) -> Iterator[str]:
    for name in (WORKER, DISPATCHER):
        if name not in look.sizes:
            yield f"{look.label}: the {name} has ended"
    for name, size in look.sizes.items():
        first = warm.sizes.get(name)
        if first is None:
            yield f"{look.label}: a {name} that was not there after the warm-up"
            continue
        # Not by PSS, which a process of somebody else's moves by ending.
        if size.rss_kib > MEMORY_FACTOR * first.rss_kib:
            yield (
                f"{look.label}: {name} RSS from {first.rss_kib} to {size.rss_kib} KiB,"
                f" {size.rss_kib / first.rss_kib - 1:+.1%}"
            )
        if size.descriptors > first.descriptors:
            yield f"{look.label}: {name} descriptors from {first.descriptors} to {size.descriptors}"
        if size.threads > first.threads:
            yield f"{look.label}: {name} threads from {first.threads} to {size.threads}"


def _counts(warm: Look, look: Look) -> Iterator[str]:
    for name, count in look.counts.items():
        if name not in NOT_JUDGED and count > warm.counts[name]:
            yield f"{look.label}: {name} from {warm.counts[name]} to {count}"
