"""One whole ddqueue on servers of its own for the time of a benchmark, and the times that its jobs stored."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from growth.look import DISPATCHER, WORKER, Size, sizes_of
from installation import Installation, sweep_text

from ddqueue.domain.states import JobState
from ddqueue.local.servers import ephemeral
from ddqueue.storage.migrate import upgrade

__all__ = [
    "DISPATCHER",
    "WORKER",
    "Installation",
    "Shown",
    "Size",
    "covered_s",
    "end_of",
    "finished_jobs",
    "installed",
    "servers_own",
    "sizes_of",
    "span_s",
    "sweep_text",
]

Shown = Mapping[str, Any]
"""A job, an attempt or a phase as `ddqueue show` has it."""

SERVERS_OWN = frozenset({"launch", "ready", "warm up", "measure", "coding", "stop", "release"})
"""The phases that a schedule without any cost of ddqueue's would still have."""


@contextmanager
def installed(inventory: str | None = None) -> Iterator[Installation]:
    """Empty, with nothing started; it ends with the block. `inventory` is a file's text; the simulated boxes without
    one."""
    with tempfile.TemporaryDirectory(prefix="ddqueue-bench-") as folder:
        Path(folder).chmod(0o755)  # root's Postgres runs as `nobody`, who must be able to enter
        with ephemeral(Path(folder) / "servers") as servers:
            upgrade(servers.database_url)
            installation = Installation(Path(folder) / "home", servers.database_url, servers.redis_url, inventory)
            try:
                yield installation
            finally:
                installation.stop()


def finished_jobs(
    installation: Installation, sweep: str, states: Iterable[JobState] = (JobState.SUCCEEDED,)
) -> Sequence[Shown] | None:
    """Every job of the sweep with its attempts and their phases, once all have ended.

    None, and a line on stderr, when one ended in none of `states` or was tried twice: its times would not be those of
    an undisturbed sweep.
    """
    wanted = set(states)
    shown = [installation.show(job["job_id"]) for job in installation.wait_final(sweep)]
    failed = [job for job in shown if JobState(job["state"]) not in wanted or len(job["attempts"]) > 1]
    if failed:
        click.echo(f"no figures: {len(failed)} of {len(shown)} jobs did not succeed at once\n{failed[0]}", err=True)
        return None
    return shown


def end_of(phase: Shown) -> datetime:
    end: datetime = phase["started_at"] + timedelta(seconds=phase["duration_s"])
    return end


def servers_own(attempt: Shown) -> list[Shown]:
    return [phase for phase in attempt["phases"] if phase["name"] in SERVERS_OWN]


def span_s(phases: Sequence[Shown]) -> float:
    """Seconds from the first one's beginning to the last one's end."""
    begun: datetime = min(phase["started_at"] for phase in phases)
    return (max(map(end_of, phases)) - begun).total_seconds()


def covered_s(phases: Iterable[Shown]) -> float:
    """Seconds under at least one of the phases."""
    covered = timedelta()
    until: datetime | None = None
    for phase in sorted(phases, key=lambda phase: phase["started_at"]):
        begun, ended = phase["started_at"], end_of(phase)
        if until is not None:
            begun = max(begun, until)
        covered += max(ended - begun, timedelta())
        until = ended if until is None else max(until, ended)
    return covered.total_seconds()
