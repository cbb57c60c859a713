"""What share of a sweep's time its hosts spend on servers and measurements: `make bench`.

Runs one sweep on two simulated boxes at once, on servers of its own, and reads the phases that ddqueue itself stored.
What a schedule without any cost of ddqueue's would still take is the servers' own time: their start, the load on them,
their stop, and the release of the GPUs. The rest, from the first claim to the last finish, is ddqueue's: it does not
depend on how long a job lasts, so that its seconds a job give the efficiency for jobs of any length.

Exit code 0 when ddqueue's seconds a job are at most LIMIT_S on each host, and jobs of JOB_S would run at GOAL of the
ideal schedule; 1 when not, or when a job failed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from installation import Installation, sweep_text

from ddqueue.domain.states import JobState
from ddqueue.local.servers import ephemeral
from ddqueue.storage.migrate import upgrade

HOSTS = ("sim-rtx6000", "sim-b300")
BUDGETS = (4, 6, 8, 10, 12, 16, 20, 24)
SERVERS_OWN = frozenset({"launch", "ready", "warm up", "measure", "coding", "stop", "release"})
LIMIT_S, GOAL, JOB_S = 0.5, 0.99, 600.0


@dataclass(frozen=True)
class HostTime:
    """One host over a sweep, in seconds: `wall_s` from its first claim to its last finish, `servers_s` of that under
    the phases that are the servers' own, `within_s` between those of one job."""

    host: str
    jobs: int
    wall_s: float
    servers_s: float
    within_s: float

    @property
    def efficiency(self) -> float:
        """The ideal schedule's time over this one's."""
        return self.servers_s / self.wall_s

    @property
    def ours_per_job_s(self) -> float:
        return (self.wall_s - self.servers_s) / self.jobs

    def efficiency_at(self, job_s: float) -> float:
        """What it would be if the servers of each job took `job_s`."""
        return job_s / (job_s + self.ours_per_job_s)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="ddqueue-bench-") as folder:
        Path(folder).chmod(0o755)  # root's Postgres runs as `nobody`, who must be able to enter
        with ephemeral(Path(folder) / "servers") as servers:
            upgrade(servers.database_url)
            jobs = _run(Installation(Path(folder) / "home", servers.database_url, servers.redis_url))
    if jobs is None:
        return 1
    return _report([_time_of(host, [job for job in jobs if job["host"] == host]) for host in HOSTS])


def _run(installation: Installation) -> Sequence[Mapping[str, Any]] | None:
    """Every job with its attempt and phases; None when one did not succeed at once."""
    cells = [f"{{block_size: 8, budget: {budget}, topk: 4, window: 2048}}" for budget in BUDGETS]
    points = ["{concurrency: 1, context: 60, output: 32}", "{concurrency: 8, context: 60, output: 32}"]
    try:
        sweep = installation.submit(sweep_text("efficiency", HOSTS, cells, points))
        installation.start_all(*HOSTS)
        shown = [installation.show(job["job_id"]) for job in installation.wait_final(sweep)]
    finally:
        installation.stop()
    failed = [job for job in shown if job["state"] != JobState.SUCCEEDED or len(job["attempts"]) != 1]
    if failed:
        click.echo(f"no figures: {len(failed)} of {len(shown)} jobs did not succeed at once\n{failed[0]}", err=True)
        return None
    return shown


def _time_of(host: str, jobs: Sequence[Mapping[str, Any]]) -> HostTime:
    attempts = [job["attempts"][0] for job in jobs]
    begun = min(attempt["started_at"] for attempt in attempts)
    ended = max(job["finished_at"] for job in jobs)
    phases = [phase for attempt in attempts for phase in attempt["phases"] if phase["name"] in SERVERS_OWN]
    servers_s, served_s = _covered_s(phases), sum(map(_span_s, attempts))
    return HostTime(host, len(jobs), (ended - begun).total_seconds(), servers_s, served_s - servers_s)


def _span_s(attempt: Mapping[str, Any]) -> float:
    """Seconds from the beginning of the launch to the end of the release."""
    own = [phase for phase in attempt["phases"] if phase["name"] in SERVERS_OWN]
    ended = max(phase["started_at"] + timedelta(seconds=phase["duration_s"]) for phase in own)
    begun: datetime = min(phase["started_at"] for phase in own)
    span: timedelta = ended - begun
    return span.total_seconds()


def _covered_s(phases: Iterable[Mapping[str, Any]]) -> float:
    """Seconds under at least one of the phases."""
    covered = timedelta()
    until: datetime | None = None
    for phase in sorted(phases, key=lambda phase: phase["started_at"]):
        begun, ended = phase["started_at"], phase["started_at"] + timedelta(seconds=phase["duration_s"])
        if until is not None:
            begun = max(begun, until)
        covered += max(ended - begun, timedelta())
        until = ended if until is None else max(until, ended)
    return covered.total_seconds()


def _report(hosts: Sequence[HostTime]) -> int:
    of_long = f"at {JOB_S / 60:.0f} min a job"
    click.echo(
        f"{'':<14}{'jobs':>6}{'wall (s)':>10}{'ideal (s)':>11}{'efficiency':>12}{'ours (s a job)':>16}"
        f"{'within jobs':>13}{of_long:>20}"
    )
    for host in hosts:
        click.echo(
            f"{host.host:<14}{host.jobs:>6}{host.wall_s:>10.2f}{host.servers_s:>11.2f}{host.efficiency:>12.2%}"
            f"{host.ours_per_job_s:>16.3f}{host.within_s / host.jobs:>13.3f}{host.efficiency_at(JOB_S):>20.3%}"
        )
    click.echo(
        "\nideal: the servers' start, warm-up, load, stop and release, one job after the other\n"
        "within jobs: what of ours lies between launch and release, such as asking the server what it runs\n"
        f"wanted: at most {LIMIT_S} s a job of ours, and {GOAL:.0%} of the ideal schedule when a job lasts minutes"
    )
    kept = all(host.ours_per_job_s <= LIMIT_S and host.efficiency_at(JOB_S) >= GOAL for host in hosts)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
