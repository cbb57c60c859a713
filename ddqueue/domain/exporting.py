"""What an export holds: named columns of known kinds, in whatever format."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ColumnKind(StrEnum):
    """What the values of a column are; any of them may be null: unknown, or not measured."""

    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    TRUTH = "truth"
    MOMENT = "moment"
    """A point in time, with its zone."""
    INTEGERS = "integers"
    TEXTS = "texts"
    JSON = "json"
    """Free-form; formats without such values hold its text."""


@dataclass(frozen=True)
class ExportColumn:
    """One column; its name carries the unit where its values have one."""

    name: str
    kind: ColumnKind
