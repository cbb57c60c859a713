"""What every metric says of itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """`tag` is the column's name without its unit; `source` says who defined it so, or where the numbers come from."""

    tag: str
    unit: str
    formula: str
    source: str
