"""How a person names a sweep or a job, and what the name stands for."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, select

from ddqueue.errors import UsageError
from ddqueue.storage import tables
from ddqueue.storage.engine import transaction


@dataclass(frozen=True)
class SweepReference:
    """One revision of a sweep."""

    sweep_id: int
    name: str
    revision: int

    def __str__(self) -> str:
        return f"{self.name}@{self.revision}"


@dataclass(frozen=True)
class Target:
    """A whole sweep, or one job of it."""

    sweep_id: int
    job_id: int | None = None

    def parameters(self) -> dict[str, Any]:
        """The parameters of the statements that take a target."""
        return {"sweep_id": self.sweep_id, "job_id": self.job_id}


def find_sweep(sql_engine: Engine, reference: str) -> SweepReference:
    """The sweep that `name` (its newest revision) or `name@2` stands for.

    Raises:
        UsageError: there is none; the text names near ones.
        NotReachable: Postgres does not answer.
    """
    with transaction(sql_engine) as connection:
        return _find_sweep(connection, reference)


def find_target(sql_engine: Engine, reference: str) -> Target:
    """The job that a number stands for, or the sweep that `name` or `name@2` does. Raises as `find_sweep`."""
    with transaction(sql_engine) as connection:
        if not re.fullmatch(r"[0-9]{1,18}", reference):
            return Target(_find_sweep(connection, reference).sweep_id)
        job_id, jobs = int(reference), tables.jobs
        sweep_id = connection.execute(select(jobs.c.sweep_id).where(jobs.c.id == job_id)).scalar_one_or_none()
        if sweep_id is None:
            raise UsageError(no_such_job(job_id))
        return Target(sweep_id, job_id)


def no_such_job(job_id: int) -> str:
    """What a person reads who named a job that is not there."""
    return f"there is no job {job_id}; `ddqueue status` lists the jobs of a sweep"


def _find_sweep(connection: Connection, reference: str) -> SweepReference:
    name, revision = _split(reference)
    sweeps = tables.sweeps
    rows = connection.execute(
        select(sweeps.c.id, sweeps.c.revision).where(sweeps.c.name == name).order_by(sweeps.c.revision)
    ).all()
    if not rows:
        raise UsageError(_unknown(connection, name))
    for row in rows if revision is not None else rows[-1:]:
        if revision in (None, row.revision):
            return SweepReference(row.id, name, row.revision)
    raise UsageError(f"sweep {name!r} has no revision {revision}; the newest is {name}@{rows[-1].revision}")


def _split(reference: str) -> tuple[str, int | None]:
    name, at, revision = reference.rpartition("@")
    if not at:
        return _without_nul(reference), None
    if not re.fullmatch(r"[1-9][0-9]{0,8}", revision):
        raise UsageError(f"{reference!r} is not a sweep; write its name, or name@2 for its second revision")
    return _without_nul(name), int(revision)


def _without_nul(name: str) -> str:
    if "\0" in name:
        raise UsageError("a sweep's name holds no NUL")
    return name


def _unknown(connection: Connection, name: str) -> str:
    known = connection.execute(select(tables.sweeps.c.name).distinct()).scalars().all()
    if not known:
        return f"there is no sweep {name!r}, and none at all yet; `ddqueue submit FILE` adds one"
    near = difflib.get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`ddqueue status` lists them"
    return f"there is no sweep {name!r}; {hint}"
