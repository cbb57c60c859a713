"""Makes values fit for Postgres: it has no NUL in text, its JSON has no NaN, and neither has lone surrogates.

One bad character in a server's answer must not lose the outcome of a three-hour attempt: it is replaced, and what was
replaced is noted in the events.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_SURROGATE = re.compile("[\ud800-\udfff]")


class Cleaner:
    """Cleans the values of one row; `notes` names the fields in which something was replaced, and what."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def text(self, value: str, where: str) -> str:
        """`value` without NUL and lone surrogates, each replaced by U+FFFD."""
        clean = value.replace("\0", REPLACEMENT)
        if clean != value:
            self.notes.append(f"{where}: NUL replaced")
        encodable = _SURROGATE.sub(REPLACEMENT, clean)
        if encodable != clean:
            self.notes.append(f"{where}: not UTF-8, replaced")
        return encodable

    def optional_text(self, value: str | None, where: str) -> str | None:
        return None if value is None else self.text(value, where)

    def number(self, value: float | None, where: str) -> float | None:
        """`value`, or None for what is not finite."""
        if value is None or math.isfinite(value):
            return value
        self.notes.append(f"{where}: not finite, stored as null")
        return None

    def json(self, value: Any, where: str) -> Any:
        """`value` as plain JSON values, however deep; what JSON does not know becomes its text."""
        if isinstance(value, Enum):
            return self.json(value.value, where)
        if isinstance(value, str):
            return self.text(value, where)
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, float):
            return self.number(value, where)
        if isinstance(value, Mapping):
            named = [(self.text(str(key), where), item) for key, item in value.items()]
            return {key: self.json(item, f"{where}.{key}") for key, item in named}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self.json(item, where) for item in value]
        return self.text(str(value), where)
