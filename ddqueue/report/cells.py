"""What was measured of each configuration on each host: its repeats, start by start. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import zip_longest
from statistics import fmean
from typing import Any, NamedTuple

from ddqueue.domain.marks import Mark
from ddqueue.domain.measurement import Invalid
from ddqueue.domain.noise import Visits
from ddqueue.domain.sweep import Point
from ddqueue.report.visits import Row, grouped, pooled

Server = tuple[str, str]
"""A host and a parallelism: what a baseline, a noise floor and a drift hold for."""


class Repeat(NamedTuple):
    """One repeat of one point. `start` names the start of the server that it was measured on; `started_at` is None
    where somebody measured it by hand.

    A tuple, because a sweep may have hundreds of thousands: a dataclass takes four times as long to make.
    """

    job_id: int
    start: int
    started_at: datetime | None
    point: Point
    reasons: tuple[Invalid, ...]
    marks: tuple[Mark, ...]
    throughput_tok_s: float | None
    acceptance_length: float | None
    step_time_ms: float | None
    verifies: int | None
    correct_drafts: int | None
    draft_histogram: tuple[int, ...]

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Repeat:
        """Reads a row of `PostgresReader.repeats`."""
        return cls(
            job_id=row["job_id"],
            start=row["start"],
            started_at=row["started_at"],
            point=_point(row["concurrency"], row["context_tokens"], row["output_tokens_asked"]),
            reasons=tuple(map(Invalid, row["reasons"])),
            marks=tuple(map(Mark, row["marks"])),
            throughput_tok_s=row["output_throughput_tok_s"],
            acceptance_length=row["acceptance_length"],
            step_time_ms=row["step_time_ms"],
            verifies=row["verifies"],
            correct_drafts=row["correct_drafts"],
            draft_histogram=tuple(row["draft_histogram"] or ()),
        )

    @property
    def valid(self) -> bool:
        return not self.reasons


@lru_cache(maxsize=256)
def _point(concurrency: int, context: int, output: int) -> Point:
    """One object for all repeats of a point: then it is compared by being the same."""
    return Point(concurrency, context, output)


Quantity = Callable[[Repeat], float | None]


def throughput_tok_s(repeat: Repeat) -> float | None:
    """Output tokens per second."""
    return repeat.throughput_tok_s


def acceptance_length(repeat: Repeat) -> float | None:
    """Tokens per verify."""
    return repeat.acceptance_length


@dataclass(frozen=True)
class MeasuredCell:
    """One configuration on one host with one parallelism: `row` pools its visits as the table does, `visits` are the
    rows of the view `results` that it was made from, `repeats` those of the visits that succeeded."""

    row: Row
    visits: tuple[Row, ...]
    repeats: tuple[Repeat, ...]

    @cached_property
    def key(self) -> tuple[str, str, str]:
        return self.row["host"], self.row["parallel"], self.row["cell_hash"]

    @cached_property
    def server(self) -> Server:
        return self.row["host"], self.row["parallel"]

    @property
    def label(self) -> str:
        return str(self.row["label"])

    @property
    def is_control(self) -> bool:
        return any(visit["control"] for visit in self.visits)

    @property
    def is_simulated(self) -> bool:
        return bool(self.row["simulated"])

    def taken_at(self, point: Point) -> list[Repeat]:
        """Every repeat there, valid or not, in the order taken."""
        return self._taken.get(point, [])

    def valid_at(self, point: Point) -> list[Repeat]:
        return self._valid.get(point, [])

    def starts_at(self, point: Point, quantity: Quantity = throughput_tok_s) -> Visits:
        """The quantity of each valid repeat at the point, start by start, where it was measured."""
        found = self._starts.get((point, quantity))
        if found is None:
            found = self._starts[point, quantity] = _by_start(self.valid_at(point), quantity)
        return found

    def acceptance_at(self, point: Point) -> float | None:
        """Tokens per verify, by sums over the valid repeats; None without speculation."""
        found = self.valid_at(point)
        verifies = sum(one.verifies or 0 for one in found)
        return 1 + sum(one.correct_drafts or 0 for one in found) / verifies if verifies else None

    def step_time_at(self, point: Point) -> float | None:
        """Milliseconds, the mean over the valid repeats."""
        steps = [one.step_time_ms for one in self.valid_at(point) if one.step_time_ms is not None]
        return fmean(steps) if steps else None

    @cached_property
    def _taken(self) -> dict[Point, list[Repeat]]:
        found: dict[Point, list[Repeat]] = {}
        for repeat in self.repeats:
            found.setdefault(repeat.point, []).append(repeat)
        return found

    @cached_property
    def _valid(self) -> dict[Point, list[Repeat]]:
        return {point: [repeat for repeat in taken if repeat.valid] for point, taken in self._taken.items()}

    @cached_property
    def _starts(self) -> dict[tuple[Point, Quantity], Visits]:
        """What `starts_at` gave: rankings, floors, pairs and plots all ask for the same."""
        return {}

    @cached_property
    def draft_histogram(self) -> tuple[int, ...]:
        """Over all valid repeats; empty where none was reported."""
        valid = [repeat.draft_histogram for repeat in self.repeats if repeat.valid]
        return tuple(sum(column) for column in zip_longest(*valid, fillvalue=0))


def _by_start(repeats: Iterable[Repeat], quantity: Quantity) -> Visits:
    starts: dict[int, list[float]] = {}
    for repeat in repeats:
        value = quantity(repeat)
        if value is not None:
            starts.setdefault(repeat.start, []).append(value)
    return tuple(map(tuple, starts.values()))


def measured_cells(rows: Sequence[Row], repeats: Iterable[Row]) -> list[MeasuredCell]:
    """One for each configuration on each host and parallelism, in the order of the table.

    `rows` are those of the view `results`, `repeats` those of `PostgresReader.repeats`.
    """
    visits = grouped(rows)
    by_job: dict[int, list[Repeat]] = {}
    for row in repeats:
        by_job.setdefault(row["job_id"], []).append(Repeat.from_row(row))
    cells = []
    for row in pooled(rows):
        of_cell = tuple(visits[row["host"], row["parallel"], row["cell_hash"]])
        found = tuple(repeat for visit in of_cell for repeat in by_job.get(visit["job_id"], ()))
        cells.append(MeasuredCell(row, of_cell, found))
    return cells
