"""What share of a sweep's time its hosts spend on servers and measurements, and ddqueue's memory: `make bench`.

Runs one sweep on two simulated boxes at once, on servers of its own, and reads the phases that ddqueue itself stored.
What a schedule without any cost of ddqueue's would still take is the servers' own time: their start, the load on them,
their stop, and the release of the GPUs. The rest, from the first claim to the last finish, is ddqueue's: it does not
depend on how long a job lasts, so that its seconds a job give the efficiency for jobs of any length.

After the sweep the kernel is asked for the memory of each of ddqueue's processes that stay: `make growth` says whether
it grows.

Exit code 0 when ddqueue's seconds a job are at most LIMIT_S on each host, and jobs of JOB_S would run at GOAL of the
ideal schedule; 1 when not, or when a job failed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click
from installed import (
    DISPATCHER,
    WORKER,
    Installation,
    Shown,
    Size,
    covered_s,
    finished_jobs,
    installed,
    servers_own,
    sizes_of,
    span_s,
    sweep_text,
)

HOSTS = ("sim-rtx6000", "sim-b300")
BUDGETS = (4, 6, 8, 10, 12, 16, 20, 24)
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
    with installed() as installation:
        jobs, sizes = _run(installation)
    if jobs is None:
        return 1
    code = _report([_time_of(host, [job for job in jobs if job["host"] == host]) for host in HOSTS])
    _report_memory(sizes)
    return code


def _run(installation: Installation) -> tuple[Sequence[Shown] | None, Mapping[str, Size]]:
    """Every job with its attempt and phases, None when one did not succeed at once; and the processes' sizes after."""
    cells = [f"{{block_size: 8, budget: {budget}, topk: 4, window: 2048}}" for budget in BUDGETS]
    points = ["{concurrency: 1, context: 60, output: 32}", "{concurrency: 8, context: 60, output: 32}"]
    sweep = installation.submit(sweep_text("efficiency", HOSTS, cells, points))
    dispatcher, *workers = installation.start_all(*HOSTS)
    jobs = finished_jobs(installation, sweep)
    names = (DISPATCHER, *(f"{WORKER} of {host}" for host in HOSTS))
    return jobs, sizes_of({name: service.pid for name, service in zip(names, (dispatcher, *workers), strict=True)})


def _time_of(host: str, jobs: Sequence[Shown]) -> HostTime:
    attempts = [job["attempts"][0] for job in jobs]
    begun = min(attempt["started_at"] for attempt in attempts)
    ended = max(job["finished_at"] for job in jobs)
    own = [servers_own(attempt) for attempt in attempts]
    servers_s, served_s = covered_s(phase for phases in own for phase in phases), sum(map(span_s, own))
    return HostTime(host, len(jobs), (ended - begun).total_seconds(), servers_s, served_s - servers_s)


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


def _report_memory(sizes: Mapping[str, Size]) -> None:
    click.echo(f"\n{'memory after the sweep':<40}{'RSS (MiB)':>11}{'PSS (MiB)':>11}{'threads':>9}")
    for name, size in sizes.items():
        click.echo(f"{name:<40}{size.rss_kib / 1024:>11.1f}{size.pss_kib / 1024:>11.1f}{size.threads:>9}")
    click.echo("PSS: what several processes share is counted in parts, so that the sum is what all of them take")


if __name__ == "__main__":
    sys.exit(main())
