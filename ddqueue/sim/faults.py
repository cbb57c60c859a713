"""Faults asked for on the command line: `--sim-fault KIND[@WHERE][=VALUE]` (`:` does for `@`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    """What goes wrong."""

    CRASH = "crash"
    """The scheduler process is killed, in a phase, or while serving once VALUE (2) requests run at once."""
    RANK_LOST = "rank-lost"
    """Once VALUE (2) requests run at once, a rank dies: the server says so, answers nothing more, keeps its port and
    its connections, and waits a minute for core dumps before it ends."""
    HANG = "hang"
    """Start-up stops for ever in a phase, with every process alive."""
    SLOW = "slow"
    """Capture takes VALUE (0.5) seconds for each batch size."""
    OOM = "oom"
    """Out of memory in a phase, or while serving once VALUE (2) requests run at once."""
    NOT_FOUND = "not-found"
    """The model's or the drafter's path is not there."""
    WRONG_SETTING = "wrong-setting"
    """The server runs VALUE for the setting WHERE, and says so in /server_info only."""
    MEMORY_KEPT = "memory-kept"
    """GPU memory outlives the processes by VALUE seconds (for ever)."""
    STALL = "stall"
    """Once VALUE (2) requests run at once, one of them or all of them fall silent."""
    GARBAGE = "garbage"
    """Bytes that are no UTF-8 and escape codes in the log, or a chunk that is no JSON in a stream."""
    SHORT = "short"
    """Answers end after half of the tokens asked for."""
    ERROR_MIDSTREAM = "error-midstream"
    """A stream carries an error object half-way, then ends as if all were well."""
    CORRUPT_SPECULATION = "corrupt-speculation"
    """Under speculation, answers to known coding problems are wrong."""
    CORRUPT_UNDER_LOAD = "corrupt-under-load"
    """The same, once VALUE (2) requests run at once; alone they are right."""
    NO_ANSWER = "no-answer"
    """Chats hold reasoning only, cut off by the limit, or ended by themselves, after VALUE (256 or 19) tokens."""
    WRONG_TAG = "wrong-tag"
    """Answers carry VALUE (`another-server`) as their weight_version."""


PHASES = ("init", "load", "kv", "capture", "ready")
"""Start-up's phases, as faults name them; `ready` is the warm-up behind the bound port."""

_PLACES: dict[FaultKind, tuple[str, ...]] = {
    FaultKind.CRASH: (*PHASES, "serving"),
    FaultKind.HANG: PHASES,
    FaultKind.SLOW: ("capture",),
    FaultKind.OOM: ("load", "kv", "capture", "run"),
    FaultKind.NOT_FOUND: ("model", "draft"),
    FaultKind.STALL: ("all", "one"),
    FaultKind.GARBAGE: ("log", "stream"),
    FaultKind.NO_ANSWER: ("length", "stop"),
}
"""Where a kind can strike; the first place is meant when none is said. Other kinds take no place, or any setting."""

MIDSTREAM_FROM_TOKENS = 32
"""Faults inside an answer spare shorter ones, so that a readiness probe passes and the measuring meets them."""


@dataclass(frozen=True)
class Fault:
    """One fault, as asked for."""

    kind: FaultKind
    where: str | None = None
    value: str | None = None

    def number(self, default: float) -> float:
        """VALUE as a number. `parse` has made sure that it is one where a kind needs one."""
        return default if self.value is None else float(self.value)


@dataclass(frozen=True)
class Faults:
    """All faults of one server."""

    faults: Sequence[Fault] = ()

    def find(self, kind: FaultKind, where: str | None = None) -> Fault | None:
        """The fault of this kind, at this place if one is said."""
        for fault in self.faults:
            if fault.kind is kind and where in (None, fault.where):
                return fault
        return None

    def all_of(self, kind: FaultKind) -> list[Fault]:
        return [fault for fault in self.faults if fault.kind is kind]


def parse(text: str) -> Fault:
    """Read KIND[@WHERE][=VALUE]. Raises ValueError, saying what would be right."""
    match = re.fullmatch(r"([a-z-]+)(?:[@:]([\w-]+))?(?:=(.*))?", text)
    kinds = {kind.value: kind for kind in FaultKind}
    if match is None or match.group(1) not in kinds:
        raise ValueError(f"{text!r} is no fault; there are {', '.join(kinds)}, as KIND[@WHERE][=VALUE]")
    kind, where, value = kinds[match.group(1)], match.group(2), match.group(3)
    if kind is FaultKind.WRONG_SETTING:
        if where is None or value is None:
            raise ValueError(f"{text!r} needs a setting and a value: wrong-setting@page_size=16")
        return Fault(kind, where.replace("-", "_"), value)
    places = _PLACES.get(kind, ())
    if where is not None and where not in places:
        right = f"it can at {', '.join(places)}" if places else "say no place"
        raise ValueError(f"{kind} cannot strike at {where!r}; {right}")
    if value is not None and kind is not FaultKind.WRONG_TAG:
        float(value)
    return Fault(kind, where or (places[0] if places else None), value)
