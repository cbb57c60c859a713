"""What passes between a queue and the attempt that works on a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from ddqueue.domain.configuration import Cell, Parallelism
from ddqueue.domain.sweep import Measure, Point


@dataclass(frozen=True)
class Runner:
    """The process that runs an attempt; pid and start time (clock ticks since boot) together name it for ever."""

    pid: int
    start_ticks: int
    worker: str


@dataclass(frozen=True)
class Claim:
    """A job this attempt may work on, as long as `fence` is the job's."""

    job_id: int
    attempt_id: int
    attempt_number: int
    tries_used: int
    """Tries used before this attempt."""
    fence: int
    host: str
    sweep_id: int
    sweep: str
    """The sweep's name and revision, `name@2`."""
    cell: Cell
    cell_label: str
    out_of_distribution: bool
    parallelism: Parallelism
    measure: Measure

    @property
    def tag(self) -> str:
        """What every response of this attempt's server must carry."""
        return f"ddqueue-{self.attempt_id}-{self.fence}"


class Lease(StrEnum):
    """The database's answer to a heartbeat."""

    HELD = "held"
    CANCEL = "cancel"
    """Held, and a person wants the attempt stopped."""
    YIELD = "yield"
    """Held, and a person wants the attempt stopped and its job to wait again."""
    LOST = "lost"
    """Another attempt has the fence, or the job is no longer running."""


@dataclass(frozen=True)
class PhaseRecord:
    """One step of the pipeline, with its times."""

    name: str
    started_at: datetime
    duration_s: float
    detail: str = ""


@dataclass(frozen=True)
class CarriedRepeat:
    """A valid repeat that an earlier attempt of the same job measured on an equal server: it is not measured again."""

    point: Point
    repeat: int
    output_throughput_tok_s: float


@dataclass(frozen=True)
class NextJob:
    """What the dispatcher needs to nudge a host."""

    job_id: int
    host: str
    sweep: str
    model: str
    cell_label: str
    parallel: str


@dataclass(frozen=True)
class Provenance:
    """What an attempt ran on and ran: free-form, but written before anything is measured."""

    values: Mapping[str, Any]
