"""How a person names a sweep or a job, and what the name stands for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ddqueue.errors import UsageError
from ddqueue.storage.reads import Fetch, Reads


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


def find_sweep(reads: Reads, reference: str) -> SweepReference:
    """The sweep that `name` (its newest revision) or `name@2` stands for.

    Raises:
        UsageError: there is none; the text names near ones.
        NotReachable: Postgres does not answer.
    """
    with reads.reading() as fetch:
        return _find_sweep(fetch, reference)


def find_target(reads: Reads, reference: str) -> Target:
    """The job that a number stands for, or the sweep that `name` or `name@2` does. Raises as `find_sweep`."""
    with reads.reading() as fetch:
        if not re.fullmatch(r"[0-9]{1,18}", reference):
            return Target(_find_sweep(fetch, reference).sweep_id)
        job_id = int(reference)
        found = fetch("SELECT sweep_id FROM jobs WHERE id = :job_id", job_id=job_id)
        if not found:
            raise UsageError(no_such_job(job_id))
        return Target(found[0]["sweep_id"], job_id)


def no_such_job(job_id: int) -> str:
    """What a person reads who named a job that is not there."""
    return f"there is no job {job_id}; `ddqueue status` lists the jobs of a sweep"


def _find_sweep(fetch: Fetch, reference: str) -> SweepReference:
    name, revision = _split(reference)
    rows = fetch("SELECT id, revision FROM sweeps WHERE name = :name ORDER BY revision", name=name)
    if not rows:
        raise UsageError(_unknown(fetch, name))
    for row in rows if revision is not None else rows[-1:]:
        if revision in (None, row["revision"]):
            return SweepReference(row["id"], name, row["revision"])
    raise UsageError(f"sweep {name!r} has no revision {revision}; the newest is {name}@{rows[-1]['revision']}")


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


def _unknown(fetch: Fetch, name: str) -> str:
    known = [row["name"] for row in fetch("SELECT DISTINCT name FROM sweeps")]
    if not known:
        return f"there is no sweep {name!r}, and none at all yet; `ddqueue submit FILE` adds one"
    import difflib  # only a person's slip needs it

    near = difflib.get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`ddqueue status` lists them"
    return f"there is no sweep {name!r}; {hint}"
