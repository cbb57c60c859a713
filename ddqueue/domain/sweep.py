"""A submitted sweep: which cells, on which hosts, measured how; and the jobs it expands into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ddqueue.domain.configuration import Cell, Parallelism


class OutOfDistribution(StrEnum):
    """What to do with a block size the drafter was not trained for."""

    REFUSE = "refuse"
    ALLOW = "allow"


@dataclass(frozen=True, order=True)
class Point:
    """One workload on a running server: `concurrency` requests in flight, each with `context` prompt tokens and
    `output` forced output tokens."""

    concurrency: int
    context: int
    output: int

    @property
    def label(self) -> str:
        """`C=1 60`, `C=32 4k`: the column heads people write."""
        context = f"{self.context // 1024}k" if self.context >= 1024 and self.context % 1024 == 0 else str(self.context)
        return f"C={self.concurrency} {context}"


@dataclass(frozen=True)
class Repeats:
    """Measure a point at least `minimum` and at most `maximum` times, until the 95% interval of the mean throughput is
    within +- `within` (a fraction of the mean)."""

    minimum: int = 3
    maximum: int = 10
    within: float = 0.03


@dataclass(frozen=True)
class Coding:
    """A suite of coding problems asked at each of these concurrencies."""

    suite: str
    concurrency: tuple[int, ...] = (1,)


@dataclass(frozen=True)
class Measure:
    """What is measured on every running server.

    `prompts` is a text file on each host that prompts are cut from; without one they are put together from built-in
    phrases.
    """

    points: tuple[Point, ...]
    repeats: Repeats = Repeats()
    coding: Coding | None = None
    prompts: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, the form stored with the sweep."""
        return {
            "points": [[point.concurrency, point.context, point.output] for point in self.points],
            "repeats": {
                "min": self.repeats.minimum,
                "max": self.repeats.maximum,
                "within": self.repeats.within,
            },
            "coding": None
            if self.coding is None
            else {"suite": self.coding.suite, "concurrency": list(self.coding.concurrency)},
            "prompts": self.prompts,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Measure:
        """Rebuild what `to_json` gave."""
        repeats, coding = value["repeats"], value["coding"]
        return cls(
            points=tuple(Point(*point) for point in value["points"]),
            repeats=Repeats(repeats["min"], repeats["max"], repeats["within"]),
            coding=None if coding is None else Coding(coding["suite"], tuple(coding["concurrency"])),
            prompts=value["prompts"],
        )


@dataclass(frozen=True)
class SweepCell:
    """A cell as a sweep asks for it: with its name in tables and whether the drafter was trained for it."""

    cell: Cell
    label: str
    out_of_distribution: bool = False


@dataclass(frozen=True)
class Sweep:
    """A sweep file, read and expanded; immutable. `cells` are distinct, in the order asked, the baseline first."""

    name: str
    model: str
    engine: str
    hosts: tuple[str, ...]
    parallel: Mapping[str, tuple[Parallelism, ...]]
    cells: tuple[SweepCell, ...]
    measure: Measure
    hypothesis: str | None = None
    out_of_distribution: OutOfDistribution = OutOfDistribution.REFUSE
    simulated: bool = False
    file_name: str = ""
    file_text: str = ""
    folded: int = 0
    """How many cells of the file were duplicates of an earlier one."""


@dataclass(frozen=True)
class JobSpec:
    """A cell on a host: the unit of queueing."""

    cell: SweepCell
    host: str
    parallelism: Parallelism


def jobs_of(sweep: Sweep) -> list[JobSpec]:
    """Every job of a sweep, in the order each host should run them: parallelism by parallelism, cells as asked."""
    return [
        JobSpec(cell, host, parallelism)
        for host in sweep.hosts
        for parallelism in sweep.parallel[host]
        for cell in sweep.cells
    ]
