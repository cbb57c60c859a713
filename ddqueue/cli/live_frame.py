"""One look at the queue as texts: for a live table on a terminal, or for lines in a log. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddqueue.cli.output import duration
from ddqueue.domain.eta import Eta, last
from ddqueue.domain.states import FINAL, JobState

if TYPE_CHECKING:
    from ddqueue.storage.live import HostLive, SoFar

Row = Mapping[str, Any]

ASSUMED_NOTE = (
    "assumed: nothing of the sweep has been measured on that host yet; the time is the plan's, of round figures"
)
_WAITS = {"paused": "paused", "quarantine": "quarantined", "hold": "held", "sweep": "waits for another sweep"}
_FAILURES = 5


@dataclass(frozen=True)
class HostNow:
    """What one host does. `so_far` holds output tokens/s by point with the number of repeats."""

    host: str
    state: str
    job: str
    doing: str
    progress: str
    so_far: str
    waiting: int


@dataclass(frozen=True)
class SweepNow:
    """Where one sweep is."""

    sweep: str
    done: int
    jobs: int
    running: int
    failed: int
    left: str

    @property
    def ended(self) -> bool:
        return self.done == self.jobs


@dataclass(frozen=True)
class Frame:
    """One look. `failures` are the newest failed and lost attempts, newest first."""

    hosts: tuple[HostNow, ...]
    sweeps: tuple[SweepNow, ...]
    failures: tuple[str, ...]
    notes: tuple[str, ...]


def frame(
    hosts: Sequence[Row],
    sweeps: Sequence[Row],
    failures: Sequence[Row],
    live: Mapping[str, HostLive],
    only: str | None = None,
    on_hosts: Sequence[str] | None = None,
) -> Frame:
    """What rows of PostgresReader and PostgresLive say; of the sweep `only` (name@revision) and its hosts, if given.

    Without it, sweeps that have ended are left out.
    """
    shown = [row for row in sweeps if (_name(row) == only if only else row["queued"] or row["running"])]
    names = {_name(row) for row in shown}
    told = sorted((row for row in failures if row["sweep"] in names), key=lambda row: row["at"], reverse=True)
    hosts_now = tuple(_host(row, live.get(row["name"])) for row in hosts if on_hosts is None or row["name"] in on_hosts)
    sweeps_now = tuple(_sweep(row, live) for row in shown)
    assumed = any(
        "assumed" in text for text in [*(one.progress for one in hosts_now), *(one.left for one in sweeps_now)]
    )
    return Frame(hosts_now, sweeps_now, tuple(map(_failure, told[:_FAILURES])), (ASSUMED_NOTE,) if assumed else ())


def lines(now: Frame) -> list[str]:
    """One line a sweep and a host."""
    said = []
    for sweep in now.sweeps:
        failed = f", {sweep.failed} failed" if sweep.failed else ""
        said.append(f"{sweep.sweep}: {sweep.done}/{sweep.jobs} done{failed}, {sweep.left}")
    for host in now.hosts:
        parts = [host.state if host.job == "-" else f"{host.job}, {host.doing}, {host.progress}"]
        if host.so_far:
            parts.append(f"{host.so_far} tok/s")
        said.append(f"{host.host}: {'; '.join(parts)}; {host.waiting} waiting")
    return said


def _host(row: Row, live: HostLive | None) -> HostNow:
    name = f"{row['name']} (simulated)" if row["simulated"] else str(row["name"])
    busy = row["job_id"] is not None
    running = live.running if live is not None else None
    return HostNow(
        host=name,
        state=_state(row),
        job=f"{row['job_id']} {row['sweep']} {row['parallel']} {row['label']}" if busy else "-",
        doing=(row["activity"] or "starting") if busy else "-",
        progress="-" if live is None or running is None or not busy else _progress(live),
        so_far=", ".join(map(_so_far, live.so_far)) if live is not None and busy else "",
        waiting=row["queued"],
    )


def _state(row: Row) -> str:
    if row["quarantined_at"] is not None:
        return f"quarantined: {row['quarantine_class']}: {row['quarantine_reason']}"
    if row["held_at"] is not None:
        return f"held: {row['hold_reason']}"
    if row["job_id"] is None:
        return "idle"
    return "lease expired" if row["lease_expired"] else "running"


def _progress(live: HostLive) -> str:
    """`62%, 3 min 05 s left`."""
    if live.running is None:
        return "-"
    left_s = live.running.left_s
    assumed = "" if live.running.expected.jobs else " (assumed)"
    if left_s == 0:
        return f"longer than expected: {duration(live.running_s)}{assumed}"
    return f"{live.running_s / (live.running_s + left_s):.0%}, {duration(left_s)} left{assumed}"


def _so_far(one: SoFar) -> str:
    return (
        f"{one.point.label} no valid one"
        if one.mean_tok_s is None
        else f"{one.point.label} {one.mean_tok_s:.1f} ({one.n})"
    )


def _sweep(row: Row, live: Mapping[str, HostLive]) -> SweepNow:
    name = _name(row)
    etas = [host.etas[name] for host in live.values() if name in host.etas]
    return SweepNow(
        sweep=f"{name} (simulated)" if row["simulated"] else name,
        done=sum(row[state] for state in FINAL),
        jobs=row["jobs"],
        running=row["running"],
        failed=row[JobState.FAILED] + row[JobState.UNSUPPORTED],
        left=_left(last(etas)) if etas else "ended",
    )


def _left(eta: Eta) -> str:
    if eta.left_s is None:
        return _WAITS.get(eta.waits_for or "", eta.waits_for or "waits")
    of_jobs = f"from {eta.measured} job{'' if eta.measured == 1 else 's'}" if eta.measured else "assumed"
    return f"about {duration(eta.left_s)} left ({of_jobs})"


def _failure(row: Row) -> str:
    why = f"{row['failure']}: {row['evidence']}" if row["evidence"] else row["failure"]
    return f"{row['at']:%H:%M:%S} job {row['job_id']} {row['label']} on {row['host']}: {row['outcome']}: {why}"


def _name(row: Row) -> str:
    return f"{row['name']}@{row['revision']}"
