"""One sweep of forty trees on two simulated boxes, plain and shortened: the same winners, and in how much less time.

Everything is the real path in real time: servers of its own, a dispatcher, two workers, simulated servers and load
clients. The plain run takes ten repeats of everything in the file's order; the shortened one lets ddqueue stop a point
when its interval is narrow enough, give up what is dominated, and choose the order. Each has an installation of its
own. The winners are held together by ddqueue's own verdicts, and against the cost model that the simulated servers
follow.

Simulated servers start in a second and real ones in minutes: the share of the starts stands beside the ratio, and
`shorter_sweeps.py` has the ratio at starts as they are. The exit code is 1 when a winner differs beyond noise, when
the shortened run is not the shorter one, or when a job failed.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import click
from installed import Installation, Shown, covered_s, finished_jobs, installed, servers_own
from pace import host_seconds
from shorter_sweeps import cells, truths
from winners import Agreement, Ranking, Winners, held_together

from ddqueue.domain.configuration import Cell
from ddqueue.domain.states import FINAL, JobState
from ddqueue.domain.sweep import Point
from ddqueue.files.examples import example

HOSTS = {"sim-rtx6000": ("EP8", "pcie", 8), "sim-b300": ("TP8", "nvlink", 2.5)}
"""Parallelism, cost model, and how many times as fast as that: so fast that a job takes seconds, and so slow that what
is measured is not the machine. At 32 requests two cores would have no time left: 8 already ask for other trees than
one does."""
START_S = 0.2
POINTS = (Point(1, 60, 128), Point(8, 60, 64))
CONTROL_EVERY = 10
WITHIN = 0.05
GPUS = 8
ETA_JOBS = 2
"""The baseline, and the first one that speculates."""
PATIENCE_S = 1200.0
"""A limit for a run that would hang."""


@dataclass(frozen=True)
class Variant:
    name: str
    measure: str
    """What its file says under `measure:` beside points and control."""


PLAIN = Variant("plain", "repeats: {min: 10, max: 10}")
SHORTENED = Variant("shortened", f"repeats: {{min: 3, max: 10, within: {WITHIN:.0%}}}\n  prune: dominated")


@dataclass(frozen=True)
class HostRun:
    """One host over one sweep. `start_s` is what launch and start of the servers took of `servers_s`."""

    host: str
    jobs: int
    given_up: int
    never_started: int
    repeats: int
    wall_s: float
    servers_s: float
    start_s: float
    eta_errors: Sequence[float]
    """By what fraction of the truth too much was said to be left, after each of the first ETA_JOBS jobs."""

    @property
    def gpu_hours(self) -> float:
        """Of all GPUs while a server was there."""
        return self.servers_s * GPUS / 3600


@dataclass(frozen=True)
class Run:
    """One variant: its hosts, and what `ddqueue results --json` says of rankings, noise floors (fractions) and drift;
    `given_up` names configurations by host and by who is faster everywhere; `loads` are the machine's load averages
    before and after."""

    variant: Variant
    jobs: Sequence[Shown]
    loads: tuple[float, float]
    hosts: Sequence[HostRun]
    rankings: Sequence[Ranking]
    floors: Mapping[tuple[str, Point], float]
    drifts: Sequence[str]
    given_up: Mapping[tuple[str, str], Sequence[str]]

    @property
    def wall_s(self) -> float:
        """Both hosts work at once: the slower one's."""
        return max(host.wall_s for host in self.hosts)

    @property
    def gpu_hours(self) -> float:
        return sum(host.gpu_hours for host in self.hosts)


@click.command()
def main() -> None:
    runs = []
    for variant in (PLAIN, SHORTENED):
        run = _run(variant)
        if run is None:
            sys.exit(1)
        runs.append(run)
        _tell(run)
    plain, shortened = runs
    winners = held_together(plain.rankings, shortened.rankings)
    _tell_winners(winners, plain.floors, shortened.floors)
    at_one_pace = max(host_seconds(shortened.jobs, plain.jobs).values()) / max(
        host_seconds(plain.jobs, plain.jobs).values()
    )
    click.echo(
        f"shortened over plain: {shortened.wall_s / plain.wall_s:.1%} of the time,"
        f" {shortened.gpu_hours / plain.gpu_hours:.1%} of the GPU hours in servers;"
        f" {at_one_pace:.1%} at the plain run's pace, whatever else the machine did"
    )
    is_different = any(one.agreement is Agreement.DIFFERENT for one in winners)
    sys.exit(int(is_different or at_one_pace >= 1))


def _run(variant: Variant) -> Run | None:
    """None when a job failed."""
    before = os.getloadavg()[0]
    with installed(_inventory()) as installation:
        installation.patience_s = PATIENCE_S
        sweep = installation.submit(_sweep_text(variant))
        installation.start_all(*HOSTS)
        said = _said_left(installation, sweep)
        jobs = finished_jobs(installation, sweep, (JobState.SUCCEEDED, JobState.PRUNED))
        if jobs is None:
            return None
        document = installation.json("results", sweep)
    return Run(
        variant,
        jobs,
        (before, os.getloadavg()[0]),
        [_host_run(host, [job for job in jobs if job["host"] == host], said[host]) for host in HOSTS],
        document["ranking"],
        {(floor["host"], _point(floor)): floor["floor_fraction"] for floor in document["noise"]},
        [f"{drift['host']}: {drift['words']}" for drift in document["drift"]],
        _given_up(jobs),
    )


def _given_up(jobs: Sequence[Shown]) -> Mapping[tuple[str, str], Sequence[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for job in jobs:
        if job["state"] == JobState.PRUNED:
            found.setdefault((job["host"], job["evidence"].partition(" (job ")[0]), []).append(job["label"])
    return found


def _point(row: Shown) -> Point:
    return Point(row["concurrency"], row["context_tokens"], row["output_tokens_asked"])


def _said_left(installation: Installation, sweep: str) -> Mapping[str, Sequence[tuple[datetime, float]]]:
    """For each host what was said to be left of the sweep, in seconds, and when: after each of its first jobs."""
    said: dict[str, list[tuple[datetime, float]]] = {host: [] for host in HOSTS}
    while any(len(one) < ETA_JOBS for one in said.values()):
        ended = Counter(job["host"] for job in installation.jobs(sweep) if JobState(job["state"]) in FINAL)
        live = installation.live()
        for host, count in ended.items():
            if len(said[host]) < min(count, ETA_JOBS):
                left_s = live[host].etas[sweep].left_s
                assert left_s is not None, f"{host} waits for something\n{installation.logs()}"
                said[host].append((datetime.now(UTC), left_s))
        time.sleep(0.2)
    return said


def _inventory() -> str:
    """The simulated boxes, each with servers of its own speed."""
    command = '["{python}", -m, ddqueue.sim.server'
    commands = ", ".join(
        f'{host}: {command}, --sim-startup-s, "{START_S}", --sim-speed, "{speed}"]'
        for host, (_, _, speed) in HOSTS.items()
    )
    return example("inventory-sim.yaml").replace(f"{command}]", f"{{{commands}}}")


def _sweep_text(variant: Variant) -> str:
    trees = [cell.speculation for cell in cells() if cell.speculation is not None]
    return "\n".join(
        (
            "name: forty",
            "model: kimi-k2.6",
            "engine: sim",
            f"hosts: [{', '.join(HOSTS)}]",
            f"parallel: {{{', '.join(f'{host}: [{parallel}]' for host, (parallel, _, _) in HOSTS.items())}}}",
            "baseline: true",
            "cells:",
            *(
                f"  - {{block_size: {tree.block_size}, budget: {tree.budget}, topk: {tree.topk},"
                f" window: {tree.window or 'none'}}}"
                for tree in trees
            ),
            "measure:",
            "  points:",
            *(
                f"    - {{concurrency: {point.concurrency}, context: {point.context}, output: {point.output}}}"
                for point in POINTS
            ),
            f"  control: {{cell: baseline, every: {CONTROL_EVERY}}}",
            f"  {variant.measure}",
            "",
        )
    )


def _host_run(host: str, jobs: Sequence[Shown], said: Sequence[tuple[datetime, float]]) -> HostRun:
    attempts = [job["attempts"][0] for job in jobs if job["attempts"]]
    ended = max(job["finished_at"] for job in jobs if job["attempts"])
    own = [phase for attempt in attempts for phase in servers_own(attempt)]
    return HostRun(
        host=host,
        jobs=len(jobs),
        given_up=sum(job["state"] == JobState.PRUNED for job in jobs),
        never_started=sum(not job["attempts"] for job in jobs),
        repeats=sum(len(attempt["measurements"]) for attempt in attempts),
        wall_s=(ended - min(attempt["started_at"] for attempt in attempts)).total_seconds(),
        servers_s=covered_s(own),
        start_s=covered_s(phase for phase in own if phase["name"] in ("launch", "ready")),
        eta_errors=[left_s / (ended - at).total_seconds() - 1 for at, left_s in said],
    )


def _tell(run: Run) -> None:
    click.echo(
        f"{run.variant.name:<12}{'jobs':>6}{'given up':>10}{'repeats':>9}{'wall (s)':>10}{'in servers (s)':>16}"
        f"{'starts':>8}{'GPU hours':>11}{'ETA off by':>18}"
    )
    for host in run.hosts:
        click.echo(
            f"{host.host:<12}{host.jobs:>6}{host.given_up:>10}{host.repeats:>9}{host.wall_s:>10.1f}"
            f"{host.servers_s:>16.1f}{host.start_s / host.servers_s:>8.0%}{host.gpu_hours:>11.2f}"
            f"{', '.join(f'{error:+.0%}' for error in host.eta_errors):>18}"
        )
    click.echo("  load average {:.1f} before, {:.1f} after".format(*run.loads))
    for drift in run.drifts:
        click.echo(f"  {drift}")
    for (where, rival), labels in run.given_up.items():
        click.echo(f"  given up on {where}, {rival} being faster everywhere: {', '.join(labels)}")
    click.echo()


def _tell_winners(winners: Sequence[Winners], *floors: Mapping[tuple[str, Point], float]) -> None:
    truth = {host: _truth(box) for host, (_, box, _) in HOSTS.items()}
    click.echo(
        f"{'':<14}{'point':<10}{'plain':<14}{'shortened':<14}{'truly behind (%)':>17}{'noise floors (%)':>18}"
        "  by ddqueue's own verdicts"
    )
    for one in winners:
        point = Point(one.concurrency, one.context, one.output)
        speeds = truth[one.host][point]
        behind = ", ".join(f"{100 * (1 - speeds[name] / max(speeds.values())):.1f}" for name in (one.first, one.second))
        noise = ", ".join(f"{100 * floor[one.host, point]:.1f}" for floor in floors)
        by = "" if one.agreement is Agreement.SAME or one.behind is None else f", by {one.behind:.1%} in the plain run"
        click.echo(
            f"{one.host:<14}{point.label:<10}{one.first:<14}{one.second:<14}{behind:>17}{noise:>18}"
            f"  {one.agreement}{by}"
        )
    counts = Counter(one.agreement for one in winners)
    click.echo(", ".join(f"{count} {agreement}" for agreement, count in counts.items()) + "\n")


def _truth(box: str) -> Mapping[Point, Mapping[str, float]]:
    """Tokens/s of every configuration by its name, by the cost model, at each point."""
    asked = cells()
    speeds = truths(box, asked, POINTS)
    return {point: {_label(cell): truth[point] for cell, truth in zip(asked, speeds, strict=True)} for point in POINTS}


def _label(cell: Cell) -> str:
    tree = cell.speculation
    if tree is None:
        return "baseline"
    return f"b{tree.budget} t{tree.topk} {'none' if tree.window is None else f'w{tree.window}'}"


if __name__ == "__main__":
    main()
