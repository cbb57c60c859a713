"""What a live view shows: running attempts with what they have stored, and what the rest is expected to take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Engine, text

from ddqueue.domain.eta import Eta, Expected, RunningJob, WaitingJobs, expected, outlook, step_times
from ddqueue.domain.planning import REAL, SIMULATED, expected_job_s
from ddqueue.domain.queueing import PhaseRecord
from ddqueue.domain.sweep import Measure, Point
from ddqueue.storage.engine import transaction
from ddqueue.storage.statements import statement

EARLIER_JOBS = 20
"""Jobs of one kind that an expected time is the mean of, at most."""


@dataclass(frozen=True)
class SoFar:
    """One point of a running job: `n` valid repeats and the mean of their output throughput, tokens per second; None
    while there is no valid one."""

    point: Point
    n: int
    mean_tok_s: float | None


@dataclass(frozen=True)
class HostLive:
    """One host that has work: its running job with its numbers so far, and when it will be through with each sweep."""

    host: str
    running: RunningJob | None
    running_s: float
    so_far: tuple[SoFar, ...]
    etas: Mapping[str, Eta]


class PostgresLive:
    """Reads, and changes nothing."""

    def __init__(self, sql_engine: Engine) -> None:
        self._sql_engine = sql_engine

    def hosts(self) -> dict[str, HostLive]:
        """Every host with a running or queued job, by name, in one consistent view. Raises NotReachable."""
        with transaction(self._sql_engine) as connection:
            connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
            running = {row["host"]: row for row in _rows(connection, "live_running")}
            queued = _rows(connection, "live_queue")
            steps = _step_times(_rows(connection, "live_step_times", most=EARLIER_JOBS))
        names = sorted({*running, *(row["host"] for row in queued)})
        return {
            name: _host(name, running.get(name), [row for row in queued if row["host"] == name], steps)
            for name in names
        }


StepTimes = Mapping[tuple[str, int, bool], Sequence[Mapping[str, float]]]
"""(host, sweep id, whether of the baseline) -> one mapping of seconds by step for each earlier job."""


def _host(
    name: str, running: Mapping[str, Any] | None, queued: Sequence[Mapping[str, Any]], steps: StepTimes
) -> HostLive:
    job = None if running is None else _running(running, steps)
    waiting = [WaitingJobs(row["sweep"], row["jobs"], _expected(row, steps), row["waits_for"]) for row in queued]
    return HostLive(
        host=name,
        running=job,
        running_s=0.0 if running is None else running["running_s"],
        so_far=() if running is None else tuple(SoFar(Point(*row[:3]), row[3], row[4]) for row in running["points"]),
        etas=outlook(job, waiting),
    )


def _running(row: Mapping[str, Any], steps: StepTimes) -> RunningJob:
    phases = [PhaseRecord(name, datetime.fromisoformat(at), duration_s) for name, at, duration_s in row["phases"]]
    return RunningJob(
        sweep=row["sweep"],
        expected=_expected(row, steps),
        spent_s=step_times(phases),
        step=(row["activity"] or "").partition(":")[0],
        step_s=max(row["step_s"], 0.0),
    )


def _expected(row: Mapping[str, Any], steps: StepTimes) -> Expected:
    measure = Measure.from_json(row["measure"])
    assumed_s = expected_job_s(measure, measure.repeats.minimum, SIMULATED if row["simulated"] else REAL)
    same, other = (
        steps.get((row["host"], row["sweep_id"], kind), ()) for kind in (row["baseline"], not row["baseline"])
    )
    return expected(same, other, row["baseline"], assumed_s)


def _step_times(rows: Sequence[Mapping[str, Any]]) -> StepTimes:
    found: dict[tuple[str, int, bool], list[Mapping[str, float]]] = {}
    for _, group in groupby(rows, lambda row: row["attempt_id"]):
        steps = list(group)
        kind = (steps[0]["host"], steps[0]["sweep_id"], steps[0]["baseline"])
        phases = [PhaseRecord(row["name"], row["started_at"], row["duration_s"]) for row in steps]
        found.setdefault(kind, []).append(step_times(phases))
    return found


def _rows(connection: Connection, name: str, **parameters: Any) -> list[Mapping[str, Any]]:
    return [dict(row) for row in connection.execute(statement(name), parameters).mappings()]
