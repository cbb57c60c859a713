"""How long the users of a server are willing to wait: what a request must keep to count for goodput."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class LatencyLimits:
    """What a request must keep to count, in milliseconds; None = no limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None

    @property
    def words(self) -> str:
        """`TTFT ≤ 2000 ms and TPOT ≤ 50 ms`"""
        named = (("TTFT", self.ttft_ms), ("TPOT", self.tpot_ms), ("end to end", self.e2e_ms))
        return " and ".join(f"{name} ≤ {limit:g} ms" for name, limit in named if limit is not None)

    def to_json(self) -> dict[str, float | None]:
        """Plain JSON values, the form stored with the sweep."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, float | None]) -> LatencyLimits:
        """Rebuild what `to_json` gave."""
        return cls(**value)
