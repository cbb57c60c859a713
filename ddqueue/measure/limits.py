"""How long a request may take before it counts as failed: never so short that a healthy slow server is blamed."""

from __future__ import annotations

from dataclasses import dataclass

from ddqueue.domain.sweep import Point

SLOWEST_PREFILL_TOK_S = 400.0
"""Below this many prompt tokens per second a server is taken for stalled. It is the rate of all requests together,
because the last one in waits for everyone's prefill."""

SLOWEST_DECODE_S_PER_TOKEN = 1.0

MOST_EVENTS = 200_000
"""Of one answer when nothing is known of its length."""

EVENTS_PER_TOKEN = 4
"""Servers send one for each token, or fewer, and some without any."""


@dataclass(frozen=True)
class Limits:
    """Seconds. `first_token_s` runs from the request's start, `idle_s` from the last bytes of an answer that has begun,
    `total_s` from the request's start to its finish. `events` is how many one answer may have: each is remembered."""

    connect_s: float = 10.0
    first_token_s: float = 600.0
    idle_s: float = 120.0
    total_s: float = 3600.0
    events: int = MOST_EVENTS

    @classmethod
    def for_point(cls, point: Point) -> Limits:
        """Limits scaled by the prompts and outputs of `point`.

        An answer may fall silent while the others' prompts are prefilled, so the idle limit grows with them as well.
        """
        prefill_s = point.concurrency * point.context / SLOWEST_PREFILL_TOK_S
        first_token_s = 600.0 + prefill_s
        return cls(
            first_token_s=first_token_s,
            idle_s=120.0 + prefill_s,
            total_s=first_token_s + 600.0 + point.output * SLOWEST_DECODE_S_PER_TOKEN,
            events=1000 + EVENTS_PER_TOKEN * point.output,
        )
