"""The engine's own warnings about its settings, which belong beside a result: what it changed, ignored or lacks."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ddqueue.engine.phases import take_apart

_MOST = 50
_LONGEST = 300

_ABOUT_SETTINGS = re.compile(
    r"block size mismatch|\bis reset to\b|\b[Oo]verrid(?:ing|den)\b|\bforc(?:ed|ing)\b|only supports \w+ =="
    r"|\b(?:is|are) (?:disabled|ignored|adjusted)\b|\bDisabl(?:e|ing) .{1,80}\b(?:because|since|due to|as)\b"
    r"|\bAdjust(?:ed|ing)\b|\bSetting \S+ to\b|[Aa]utomatically (?:set|adjust|disabl|enabl|turn)"
    r"|is larger than the profiled value|is deprecated and will be removed in a future release"
    r"|\bincompatible with\b|falling back to (?!standard implementation)|no scaling factors provided|sub-optimal"
)
_WORDS = (
    *("mismatch", "reset to", "verrid", "forc", "only supports", "isabl", "ignored", "djust", "Setting "),
    *("utomatically", "profiled value", "deprecated", "incompatible", "falling back", "scaling factors", "sub-optimal"),
)
"""Every pattern above has one of them; looking for plain words first keeps a long log quick to read."""
_BEGINNINGS = ("[20", "'--")
"""Log messages, and the argument parser's word on an old flag."""
_ELSE = re.compile(r"server_args=|Endpoint '|.{0,60}GenerateReqInput\(|\w+ hit an exception")


class WarningList:
    """Collects them from lines in any order: each once, whatever rank or time says it; a bounded number."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    @property
    def texts(self) -> list[str]:
        return list(self._texts)

    def take(self, line: str) -> None:
        if len(self._texts) >= _MOST or not line.startswith(_BEGINNINGS) or not any(word in line for word in _WORDS):
            return
        body = take_apart(line).body.strip()
        if _ABOUT_SETTINGS.search(body) and not _ELSE.match(body):
            self._texts.setdefault(body[:_LONGEST])


def notable(lines: Iterable[str]) -> list[str]:
    """Such warnings among `lines`, without time and rank, in the order in which they first came."""
    found = WarningList()
    for line in lines:
        found.take(line)
    return found.texts
