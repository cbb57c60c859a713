"""A submitted sweep: which cells, on which hosts, measured how; and the jobs it expands into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ddqueue.domain.configuration import Cell, Parallelism
from ddqueue.domain.interleaving import count, turns
from ddqueue.domain.latency_limits import LatencyLimits
from ddqueue.domain.promising import middle_first


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
class Control:
    """The cell, by its hash, that is measured again through the sweep, after at most `every` other jobs: what its
    numbers differ by is the box's own noise and drift."""

    cell: str
    every: int


@dataclass(frozen=True)
class Measure:
    """What is measured on every running server.

    `prompts` is a text file on each host that prompts are cut from; without one they are put together from built-in
    phrases. `visits` is how often each cell's server is started and measured anew: repeats on one server share whatever
    that start happened to give (memory layout, clocks, routes), so only visits show how much a start changes.
    """

    points: tuple[Point, ...]
    repeats: Repeats = Repeats()
    coding: Coding | None = None
    prompts: str | None = None
    visits: int = 1
    control: Control | None = None
    prune: bool = False
    """Give a configuration up after one look when another one is clearly faster at every point (domain.dominance)."""
    goodput: LatencyLimits | None = None
    """What a request must keep to count for goodput; None where nobody has said it."""

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
            "visits": self.visits,
            "control": None if self.control is None else {"cell": self.control.cell, "every": self.control.every},
            "prune": self.prune,
            "goodput": None if self.goodput is None else self.goodput.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Measure:
        """Rebuild what `to_json` gave."""
        repeats, coding, control = value["repeats"], value["coding"], value["control"]
        return cls(
            points=tuple(Point(*point) for point in value["points"]),
            repeats=Repeats(repeats["min"], repeats["max"], repeats["within"]),
            coding=None if coding is None else Coding(coding["suite"], tuple(coding["concurrency"])),
            prompts=value["prompts"],
            visits=value["visits"],
            control=None if control is None else Control(control["cell"], control["every"]),
            prune=value["prune"],
            goodput=None if value.get("goodput") is None else LatencyLimits.from_json(value["goodput"]),
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
    """One visit of a cell on a host: the unit of queueing. `visit` counts from 1 for each cell, host and parallelism;
    `control` marks the visits of the sweep's control cell."""

    cell: SweepCell
    host: str
    parallelism: Parallelism
    visit: int = 1
    control: bool = False


def jobs_of(sweep: Sweep) -> list[JobSpec]:
    """Every job of a sweep, in the order each host should run them: parallelism by parallelism, and for each the cells
    in the order of `interleaving.turns`.

    Raises:
        ValueError: the control cell is none of the sweep's.
    """
    control = sweep.measure.control
    # What may be given up is decided sooner when strong cells come first.
    promising = middle_first([one.cell for one in sweep.cells]) if sweep.measure.prune else range(len(sweep.cells))
    cells = [sweep.cells[place] for place in promising]
    index = None if control is None else [one.cell.hash for one in cells].index(control.cell)
    order = turns(cells, sweep.measure.visits, index, control.every if control else 1)
    return [
        JobSpec(turn.cell, host, parallelism, turn.visit, turn.control)
        for host in sweep.hosts
        for parallelism in sweep.parallel[host]
        for turn in order
    ]


def job_count(sweep: Sweep) -> int:
    """How many jobs `jobs_of` gives, without building any."""
    control = sweep.measure.control
    servers = sum(len(sweep.parallel[host]) for host in sweep.hosts)
    return servers * count(len(sweep.cells), sweep.measure.visits, control.every if control else None)
