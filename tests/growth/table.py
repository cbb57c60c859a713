"""What is printed of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .look import DISPATCHER, NOT_JUDGED, SPARE, WORKER, Look, Size
from .run import Finished

_KIB_IN_MIB = 1024
_MARGIN = " " * 24
_TITLES, _WIDTHS = ("RSS MiB", "PSS MiB", "fds", "threads"), (11, 9, 5, 9)


def lines(finished: Finished) -> Iterator[str]:
    """Two tables of the same looks: each process's size, then the counts."""
    looks = (finished.before, finished.start, *finished.looks, finished.ended)
    yield from _sizes(looks)
    yield ""
    yield from _counts(looks)
    yield ""
    yield from _memory(finished)


def _sizes(looks: Sequence[Look]) -> Iterator[str]:
    names = (WORKER, SPARE, DISPATCHER)
    yield _MARGIN + "".join(f"{name:>{sum(_WIDTHS)}}" for name in names)
    columns = "".join(f"{title:>{width}}" for title, width in zip(_TITLES, _WIDTHS, strict=True))
    yield _MARGIN + columns * len(names)
    for look in looks:
        yield _label(look) + "".join(_size(look.sizes.get(name)) for name in names)


def _counts(looks: Sequence[Look]) -> Iterator[str]:
    names = list(looks[0].counts)
    widths = [max(10, len(name) + 2) for name in names]
    yield _MARGIN + "".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True)) + "  redis KiB"
    for look in looks:
        counts = "".join(f"{look.counts[name]:>{width}}" for name, width in zip(names, widths, strict=True))
        yield f"{_label(look)}{counts}{look.redis_kib:>11}"
    yield from (f"{name} is not judged: {why}" for name, why in NOT_JUDGED.items() if name in names)


def _label(look: Look) -> str:
    return f"{look.at_s:>6.0f} s {look.label:<16}"


def _size(size: Size | None) -> str:
    shown = ("-",) * len(_WIDTHS)
    if size is not None:
        memory = (f"{size.rss_kib / _KIB_IN_MIB:.1f}", f"{size.pss_kib / _KIB_IN_MIB:.1f}")
        shown = (*memory, str(size.descriptors), str(size.threads))
    return "".join(f"{text:>{width}}" for text, width in zip(shown, _WIDTHS, strict=True))


def _memory(finished: Finished) -> Iterator[str]:
    warm, last = finished.looks[0], finished.looks[-1]
    for name, first in warm.sizes.items():
        if (size := last.sizes.get(name)) is not None:
            grew_kib = size.rss_kib - first.rss_kib
            yield (
                f"{name}: RSS {grew_kib:+d} KiB ({grew_kib / first.rss_kib:+.1%}) from '{warm.label}' to '{last.label}'"
            )
