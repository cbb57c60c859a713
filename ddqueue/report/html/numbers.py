"""How numbers are written in a report. Pure."""

from __future__ import annotations

from ddqueue.domain.noise import percent

ABSENT = "-"


def rate(tok_s: float) -> str:
    """`1,234`, `145.2`: tokens per second with about four digits."""
    return f"{tok_s:,.0f}" if tok_s >= 1000 else f"{tok_s:.1f}"


def signed_percent(fraction: float) -> str:
    """`+4.6%` for 0.046."""
    return f"{'+' if fraction >= 0 else '-'}{percent(abs(fraction))}"


def times(ratio: float) -> str:
    """`1.24x`."""
    return f"{ratio:.2f}x"


def duration(seconds: float) -> str:
    """`42 s`, `3 min 05 s`, `2 h 07 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def listed(texts: list[str]) -> str:
    """`a, b and c`."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
