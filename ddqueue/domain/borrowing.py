"""A box that serves production by day is borrowed: on which terms, in which hours, and when it goes back.

A loan moves `taking -> taken -> giving back` and ends by being forgotten. Each state is noted before the command that
it names is run, so that a loan which was interrupted anywhere is known and is given back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, time
from enum import StrEnum
from typing import Any

LIMIT_S = 300.0
IDLE_S = 60.0
RETRY_BASE_S = 5.0
RETRY_LIMIT_S = 300.0

_MIDNIGHT = time(0, 0)


@dataclass(frozen=True)
class Hours:
    """From `begins` up to, not including, `ends` on the clock on the box's wall; over midnight when `ends` is no later.

    Only what the clock shows is compared, nothing is added up, so a clock that is put forward or back needs no rule of
    its own: an hour that is left out is not waited for, an hour that comes twice counts twice.
    """

    begins: time
    ends: time

    def include(self, moment: datetime) -> bool:
        """`moment` in the box's own zone."""
        clock = moment.time()
        if self.begins < self.ends:
            return self.begins <= clock < self.ends
        return clock >= self.begins or clock < self.ends

    def __str__(self) -> str:
        return f"{self.begins:%H:%M}-{'24:00' if self.ends == _MIDNIGHT else f'{self.ends:%H:%M}'}"


@dataclass(frozen=True)
class Borrow:
    """How a host is borrowed. `take` and `give_back` are argv, run without a shell for at most `limit_s` each; both
    must do no harm when they are run again. `idle_s` without work, and the box goes back; `hours` None = always."""

    take: tuple[str, ...]
    give_back: tuple[str, ...]
    limit_s: float = LIMIT_S
    idle_s: float = IDLE_S
    hours: Hours | None = None

    def closed(self, moment: datetime) -> str | None:
        """Why the box may not be borrowed at `moment`, a time with its zone; None when it may."""
        if self.hours is None or self.hours.include(moment):
            return None
        return f"outside its hours ({self.hours} {moment.tzname() or 'local time'}, now {moment:%H:%M})"

    def why_due(self, moment: datetime, idle_s: float) -> str | None:
        """Why a box that was taken, and on which nothing runs since `idle_s`, goes back; None when it does not yet."""
        if (closed := self.closed(moment)) is not None:
            return closed
        return f"no work for {self.idle_s:g} s" if idle_s >= self.idle_s else None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "hours": self.hours and [self.hours.begins.isoformat(), self.hours.ends.isoformat()]}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Borrow:
        """Raises KeyError, TypeError or ValueError for anything that `to_json` did not write."""
        hours = stored["hours"]
        return cls(
            take=tuple(stored["take"]),
            give_back=tuple(stored["give_back"]),
            limit_s=float(stored["limit_s"]),
            idle_s=float(stored["idle_s"]),
            hours=None if hours is None else Hours(*(time.fromisoformat(word) for word in hours)),
        )


class LoanState(StrEnum):
    """How far a loan has come."""

    TAKING = "taking"
    """`take` has begun; production may or may not have stopped. The next attempt takes again."""
    TAKEN = "taken"
    """The box is ours: attempts may follow one another. Whoever finds it idle gives it back."""
    GIVING_BACK = "giving back"
    """`give_back` has begun and has not succeeded yet. It is tried until it does; an attempt has to take again."""


@dataclass(frozen=True)
class RunningCommand:
    """The process of a command; within one boot, pid and start time (clock ticks) name it for ever."""

    pid: int
    start_ticks: int


@dataclass(frozen=True)
class Loan:
    """A box in our hands. `since` is when it was taken from production, `boot` names the boot in which `state` and
    `command` were noted: after another one neither holds. `terms` None: what was noted cannot be read."""

    terms: Borrow | None
    state: LoanState
    since: datetime
    boot: str
    command: RunningCommand | None = None

    def is_ours(self, boot: str) -> bool:
        """Whether nothing has to be taken any more; a box that was booted has started production by itself."""
        return self.state is LoanState.TAKEN and self.boot == boot


@dataclass(frozen=True)
class CommandEnd:
    """How a command ended. `problem` is empty after exit code 0; `said` is the end of what it printed."""

    command: tuple[str, ...]
    problem: str
    said: str

    @property
    def evidence(self) -> str:
        """One line: the command, how it ended, and its last lines."""
        said = " / ".join(line.strip() for line in self.said.splitlines() if line.strip())
        return f"`{' '.join(self.command)}` {self.problem or 'succeeded'}: {said or 'it printed nothing'}"


def retry_delay_s(failures: int) -> float:
    """How long to wait after the give-back has failed `failures` times in a row (at least once)."""
    return float(min(RETRY_BASE_S * 2.0 ** min(failures - 1, 16), RETRY_LIMIT_S))
