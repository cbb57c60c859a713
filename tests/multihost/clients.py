"""When each client noticed a cut and when it worked again, from its own log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from .history import Moment
from .limits import NOTICE_LIMIT_S, RECOVER_LIMIT_S, allowance


@dataclass(frozen=True)
class Client:
    """Regular expressions for the log lines of a client that lost its server, and of one that has it again."""

    name: str
    lost: str
    back: str


WORKER_TO_REDIS = Client("worker to Redis", "Connection to broker lost", r"Connected to redis")
DISPATCHER_TO_POSTGRES = Client("dispatcher to Postgres", "did not answer", "INFO leading")
ATTEMPT_TO_POSTGRES = Client("attempt to Postgres", "the journal keeps it", "")
"""It says nothing when it delivers again: that is read from the database."""


@dataclass(frozen=True)
class Reaction:
    """How a client met one cut; seconds, None for what never came."""

    client: str
    noticed_s: float | None
    """From the cut."""
    recovered_s: float | None
    """From the heal."""

    @property
    def text(self) -> str:
        noticed, recovered = _seconds(self.noticed_s), _seconds(self.recovered_s)
        return f"{self.client}: noticed {noticed} after the cut, worked {recovered} after the heal"

    def faults(self) -> list[str]:
        """What of the promise was not kept, with the allowance for a loaded machine."""
        factor = allowance()
        return [
            f"{self.client} {verb} after {_seconds(value)}, and not within {limit:.0f} s (x {factor:.1f} for the load)"
            for verb, value, limit in (
                ("noticed", self.noticed_s, NOTICE_LIMIT_S),
                ("worked again", self.recovered_s, RECOVER_LIMIT_S),
            )
            if value is None or value > limit * factor
        ]


def reaction(client: Client, lines: Sequence[Moment], cut_at: datetime, healed_at: datetime) -> Reaction:
    """Read it from the client's log."""
    noticed = [line.at for line in lines if line.at >= cut_at and re.search(client.lost, line.text)]
    back = [line.at for line in lines if line.at >= healed_at and re.search(client.back, line.text)]
    return Reaction(
        client.name,
        (noticed[0] - cut_at).total_seconds() if noticed else None,
        (back[0] - healed_at).total_seconds() if back else None,
    )


def _seconds(value: float | None) -> str:
    return "never, or not" if value is None else f"{value:.2f} s"
