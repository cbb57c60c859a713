"""What happened, in order and with times: what a test did, what logs say, what was read from the database."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

_STAMPED = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) (.*)$")
_LINE_LIMIT = 160


@dataclass(frozen=True, order=True)
class Moment:
    """One line of the story; `at` is aware, in UTC."""

    at: datetime
    who: str
    text: str


def logged(log: str, who: str) -> list[Moment]:
    """The stamped lines of one of ddqueue's logs, which must be in UTC; a traceback's lines have no stamp."""
    found = []
    for line in log.splitlines():
        match = _STAMPED.match(line)
        if match:
            at = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
            found.append(Moment(at, who, match[2]))
    return found


class History:
    """The story of one test; times count from its beginning."""

    def __init__(self, title: str) -> None:
        self._title = title
        self.began_at = datetime.now(UTC)
        self._moments: list[Moment] = []

    def note(self, text: str, who: str = "test", at: datetime | None = None) -> datetime:
        """Returns when it happened."""
        moment = Moment(at or datetime.now(UTC), who, text)
        self._moments.append(moment)
        return moment.at

    def take(self, log: str, who: str, *patterns: str) -> list[Moment]:
        """Add the log's lines since the beginning in which one of the patterns is found; returns all since then."""
        lines = [moment for moment in logged(log, who) if moment.at >= self.began_at]
        self._moments += [moment for moment in lines if any(re.search(pattern, moment.text) for pattern in patterns)]
        return lines

    def text(self) -> str:
        lines = [
            f"{(moment.at - self.began_at).total_seconds():8.2f} s  {moment.who:<14} {moment.text[:_LINE_LIMIT]}"
            for moment in sorted(set(self._moments))
        ]
        return "\n".join([f"--- {self._title}, begun {self.began_at:%Y-%m-%d %H:%M:%S} UTC", *lines])
