"""What passes between the load client's process and its parent: one JSON line each way for every run.

Arrivals are the bulk of a result, so they travel as flat whole numbers: microseconds since the arrival before (the
first: since the window's start), then the tokens it brought.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ddqueue.domain.measurement import RequestRecord
from ddqueue.measure.limits import Limits

NO_PROMPTS = 3
"""The client's exit status when prompts cannot be made as asked: a fault of what was asked, said on standard error."""

ARRIVALS_LIMIT = 500_000
"""Arrivals that one result may carry, which keeps its line below about 5 MB; beyond it neighbours are merged."""


@dataclass(frozen=True)
class RunRequest:
    """One closed-loop run: `requests` in all, `concurrency` of them in flight, none sent twice.

    Prompts have exactly `context` tokens, no two alike, and depend on `salt`, `repeat` and `warm_up` and nothing else.
    `prompts` names a text file to cut them from. `vocabulary` bounds the token ids for a server without a tokenizer:
    from, up to but not including.
    """

    url: str
    concurrency: int
    context: int
    output: int
    requests: int
    repeat: int
    salt: str
    warm_up: bool = False
    limits: Limits = field(default_factory=Limits)
    prompts: str | None = None
    vocabulary: tuple[int, int] = (1000, 20000)

    def to_line(self) -> bytes:
        """One line of JSON."""
        return _line(asdict(self))

    @classmethod
    def from_line(cls, line: bytes) -> RunRequest:
        """Raises ValueError, TypeError or KeyError when the line is not such a request."""
        value = dict(json.loads(line))
        value["limits"] = Limits(**value.get("limits", {}))
        value["vocabulary"] = tuple(value.get("vocabulary", (1000, 20000)))
        return cls(**value)


@dataclass(frozen=True)
class RunResult:
    """What came of it. `started_at` is Unix time, and `started_s` the same moment in seconds of CLOCK_MONOTONIC, which
    is one clock for every process of the host; `wall_s` = last finish - first start, failed requests included."""

    started_at: float
    started_s: float
    wall_s: float
    requests: tuple[RequestRecord, ...]
    client: Mapping[str, float | str]

    def to_line(self) -> bytes:
        """One line of JSON, its size bounded by the number of requests and ARRIVALS_LIMIT."""
        stride = -(-sum(len(request.arrivals) for request in self.requests) // ARRIVALS_LIMIT) or 1
        client = {**self.client, "arrivals_merged": stride}
        records = [
            {**_fields(request), "arrivals": list(_packed(_every(request.arrivals, stride)))}
            for request in self.requests
        ]
        times = {"started_at": self.started_at, "started_s": self.started_s, "wall_s": self.wall_s}
        return _line({**times, "requests": records, "client": client})

    @classmethod
    def from_line(cls, line: bytes) -> RunResult:
        """Rebuild what `to_line` gave, to the microsecond."""
        value = json.loads(line)
        return cls(
            started_at=value["started_at"],
            started_s=value["started_s"],
            wall_s=value["wall_s"],
            requests=tuple(_record(record) for record in value["requests"]),
            client=value["client"],
        )


def _record(value: dict[str, Any]) -> RequestRecord:
    value["arrivals"] = _unpacked(value["arrivals"])
    if value["draft_histogram"] is not None:
        value["draft_histogram"] = tuple(value["draft_histogram"])
    value["not_finite"] = tuple(value["not_finite"])
    return RequestRecord(**value)


def _fields(request: RequestRecord) -> dict[str, Any]:
    return {entry.name: getattr(request, entry.name) for entry in fields(request)}


def _every(arrivals: tuple[tuple[float, int], ...], stride: int) -> tuple[tuple[float, int], ...]:
    """The first arrival, every `stride`-th after it, and the last: each then stands for the ones left out before it."""
    if stride == 1 or len(arrivals) < 3:
        return arrivals
    return (arrivals[0], *arrivals[stride:-1:stride], arrivals[-1])


def _packed(arrivals: Iterable[tuple[float, int]]) -> Iterable[int]:
    before_us = before_tokens = 0
    for seconds, tokens in arrivals:
        at_us = round(seconds * 1_000_000)
        yield at_us - before_us
        yield tokens - before_tokens
        before_us, before_tokens = at_us, tokens


def _unpacked(flat: list[int]) -> tuple[tuple[float, int], ...]:
    at_us = tokens = 0
    arrivals = []
    for gap_us, gained in zip(flat[::2], flat[1::2], strict=True):
        at_us += gap_us
        tokens += gained
        arrivals.append((at_us / 1_000_000, tokens))
    return tuple(arrivals)


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n"
