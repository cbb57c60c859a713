"""A sweep judged: each configuration's verdict, each server's noise floor and drift, who is fastest where. Pure.

Everything that is printed, drawn or compared starts from this, so that no two answers can disagree.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from statistics import fmean

from ddqueue.domain.correctness import Drop
from ddqueue.domain.depths import Depths, depths
from ddqueue.domain.drift import FEWEST, Drift, drift, levels
from ddqueue.domain.failures import Failure
from ddqueue.domain.noise import NoiseFloor, noise_floor
from ddqueue.domain.ranking import Candidate, Ranking, rank
from ddqueue.domain.states import JobState
from ddqueue.domain.sweep import Measure, Point
from ddqueue.domain.verdict import CellRecord, PointRecord, Verdict, judge
from ddqueue.report.cells import (
    MeasuredCell,
    Quantity,
    Server,
    acceptance_length,
    measured_cells,
    throughput_tok_s,
)
from ddqueue.report.coding import Baselines, baseline_scores, drops_of
from ddqueue.report.visits import Row, visit_caveats


@dataclass(frozen=True)
class JudgedCell:
    """A configuration on a host with its verdict. `name` is what it is called there: its label, behind the parallelism
    where the host has several. `drops` is where it answers worse than its server's baseline."""

    measured: MeasuredCell
    name: str
    verdict: Verdict
    drops: tuple[Drop, ...]


@dataclass(frozen=True)
class ControlDrift:
    """The control cell of one server over time; `drift` is None while it has too few visits to show a trend."""

    server: Server
    label: str
    visits: int
    drift: Drift | None


@dataclass(frozen=True)
class Judgement:
    """What is to be said of one sweep. `rows` are those of the view `results`, one a visit."""

    rows: tuple[Row, ...]
    measure: Measure
    cells: tuple[JudgedCell, ...]
    floors: Mapping[tuple[Server, Point], NoiseFloor]
    drifts: tuple[ControlDrift, ...]
    rankings: tuple[Ranking, ...]

    @property
    def points(self) -> tuple[Point, ...]:
        return self.measure.points

    @property
    def hosts(self) -> list[str]:
        """In the order in which they first appear."""
        return list(dict.fromkeys(row["host"] for row in self.rows))

    def servers(self, host: str) -> list[Server]:
        """The host's parallelisms, in the order in which they first appear."""
        return list(dict.fromkeys(cell.measured.server for cell in self.cells if cell.measured.server[0] == host))

    def cell_of(self, row: Row) -> JudgedCell:
        """The configuration that a row of the view `results`, or a pooled one, belongs to."""
        return self._by_key[row["host"], row["parallel"], row["cell_hash"]]

    def floor(self, server: Server, point: Point) -> NoiseFloor | None:
        """None where no configuration of the server was visited twice at the point."""
        return self.floors.get((server, point))

    @cached_property
    def baselines(self) -> Baselines:
        """What the answers of a single visit are held against."""
        return baseline_scores(self.rows)

    @cached_property
    def acceptance_floors(self) -> Mapping[tuple[Server, Point], NoiseFloor]:
        """Like `floors`, of the tokens accepted for each verify."""
        return floors_of([cell.measured for cell in self.cells], self.points, acceptance_length)

    @cached_property
    def _by_key(self) -> dict[tuple[str, str, str], JudgedCell]:
        return {cell.measured.key: cell for cell in self.cells}


def judge_sweep(rows: Sequence[Row], repeats: Iterable[Row], measure: Measure) -> Judgement:
    """The judgement on a sweep from its rows of the view `results` and its `PostgresReader.repeats`."""
    measured = measured_cells(rows, repeats)
    company = _Company.of(measured)
    cells = tuple(_judged(cell, company, measure) for cell in measured)
    floors = floors_of(measured, measure.points)
    candidates = [_candidate(cell, measure.points) for cell in cells]
    rankings = rank(candidates, lambda host, parallel, point: floors.get(((host, parallel), point)))
    drifts = tuple(_control_drift(cell, measure.points) for cell in measured if cell.is_control)
    return Judgement(tuple(rows), measure, cells, floors, drifts, rankings)


def floors_of(
    cells: Sequence[MeasuredCell], points: Sequence[Point], quantity: Quantity = throughput_tok_s
) -> dict[tuple[Server, Point], NoiseFloor]:
    """The noise floor of each server at each point, where one is known: from every cell that was visited twice."""
    floors = {}
    for server, here in _by_server(cells).items():
        for point in points:
            floor = noise_floor(*(cell.starts_at(point, quantity) for cell in here))
            if floor is not None:
                floors[server, point] = floor
    return floors


@dataclass(frozen=True)
class _Company:
    """What the configurations of a sweep are judged beside. Gathered once: if each looked for it among the others, that
    would take the square of their number.

    `trained` has each server's cells in distribution that report their drafts, by budget: of several with one budget
    the first.
    """

    baselines: Baselines
    parallelisms: Mapping[str, set[str]]
    hosts_with_real: set[str]
    trained: Mapping[Server, Mapping[int, MeasuredCell]]

    @classmethod
    def of(cls, cells: Sequence[MeasuredCell]) -> _Company:
        parallelisms: dict[str, set[str]] = {}
        trained: dict[Server, dict[int, MeasuredCell]] = {}
        for cell in cells:
            host, parallel = cell.server
            parallelisms.setdefault(host, set()).add(parallel)
            if cell.draft_histogram and not cell.row["out_of_distribution"]:
                trained.setdefault(cell.server, {}).setdefault(_budget(cell), cell)
        return cls(
            baselines=baseline_scores(cell.row for cell in cells),
            parallelisms=parallelisms,
            hosts_with_real={cell.server[0] for cell in cells if not cell.is_simulated},
            trained={server: dict(sorted(found.items())) for server, found in trained.items()},
        )

    def nearest_trained(self, cell: MeasuredCell) -> MeasuredCell | None:
        """The trained cell of the same server whose tree is nearest in size, the smaller of two."""
        trained = self.trained.get(cell.server, {})
        budgets, budget = list(trained), _budget(cell)
        at = bisect_left(budgets, budget)
        nearest = min(budgets[max(0, at - 1) : at + 1], key=lambda other: abs(other - budget), default=None)
        return None if nearest is None else trained[nearest]


def _by_server(cells: Iterable[MeasuredCell]) -> dict[Server, list[MeasuredCell]]:
    found: dict[Server, list[MeasuredCell]] = {}
    for cell in cells:
        found.setdefault(cell.server, []).append(cell)
    return found


def _name(cell: MeasuredCell, company: _Company) -> str:
    host, parallel = cell.server
    return cell.label if company.parallelisms[host] == {parallel} else f"{parallel} {cell.label}"


def _judged(cell: MeasuredCell, company: _Company, measure: Measure) -> JudgedCell:
    drops = drops_of(cell.row, company.baselines)
    return JudgedCell(cell, _name(cell, company), judge(_record(cell, drops, company, measure), measure.repeats), drops)


def _record(cell: MeasuredCell, drops: Sequence[Drop], company: _Company, measure: Measure) -> CellRecord:
    row = cell.row
    return CellRecord(
        state=JobState(row["state"]),
        points=tuple(_point_record(cell, point) for point in measure.points),
        failure=Failure(row["failure"]) if row["failure"] else None,
        evidence=row["evidence"],
        drop="; ".join(drop.words for drop in drops) or None,
        out_of_distribution=row["out_of_distribution"],
        depths=_depths(cell, company),
        simulated=cell.is_simulated,
        among_real=cell.server[0] in company.hosts_with_real,
        caveats=visit_caveats(cell.visits),
    )


def _point_record(cell: MeasuredCell, point: Point) -> PointRecord:
    valid = cell.valid_at(point)
    reasons = dict.fromkeys(reason for repeat in cell.taken_at(point) for reason in repeat.reasons)
    marks = dict.fromkeys(mark for repeat in valid for mark in repeat.marks)
    return PointRecord(point, len(valid), tuple(reasons), tuple(marks))


def _depths(cell: MeasuredCell, company: _Company) -> Depths | None:
    """Held against the trained cell of the same server whose tree is nearest in size, where there is one: a smaller
    tree has fewer nodes at each depth, and accepts less there."""
    histogram = cell.draft_histogram
    if not histogram:
        return None
    nearest = company.nearest_trained(cell)
    return depths(histogram, nearest.draft_histogram if nearest else None)


def _budget(cell: MeasuredCell) -> int:
    return int(cell.row["budget"] or 0)


def _candidate(cell: JudgedCell, points: Sequence[Point]) -> Candidate:
    host, parallel = cell.measured.server
    visits = {point: cell.measured.starts_at(point) for point in points}
    return Candidate(cell.name, host, parallel, visits, cell.verdict)


def _control_drift(cell: MeasuredCell, points: Sequence[Point]) -> ControlDrift:
    """Over the visits that measured every point, since a visit's level is one over all points."""
    found: dict[int, dict[Point, list[float]]] = {}
    began: dict[int, datetime] = {}
    for repeat in cell.repeats:
        if repeat.valid and repeat.throughput_tok_s is not None and repeat.started_at is not None:
            found.setdefault(repeat.job_id, {}).setdefault(repeat.point, []).append(repeat.throughput_tok_s)
            began[repeat.job_id] = min(repeat.started_at, began.get(repeat.job_id, repeat.started_at))
    whole = [job_id for job_id, values in found.items() if all(point in values for point in points)]
    if len(whole) < FEWEST:
        return ControlDrift(cell.server, cell.label, len(whole), None)
    means = [[fmean(found[job_id][point]) for job_id in whole] for point in points]
    trend = drift([began[job_id] for job_id in whole], levels(means))
    return ControlDrift(cell.server, cell.label, len(whole), trend)
