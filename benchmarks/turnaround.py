"""How long a host stands idle between two jobs, and how much of that is ddqueue's own: `make bench`.

Runs one small sweep on one simulated box, on servers of its own, and reads the times that ddqueue itself stored. The
gap between two jobs goes from the end of one's `stop` to the start of the next one's `launch`. Waiting for the GPUs to
give their memory back (the `release` phase) is not ddqueue's share; everything else is.

Exit code 0 when the median of ddqueue's own share is at most LIMIT_S, 1 when it is more or a job failed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from installation import Installation, sweep_text

from ddqueue.domain.states import JobState
from ddqueue.local.servers import ephemeral
from ddqueue.storage.migrate import upgrade

HOST = "sim-rtx6000"
BUDGETS = range(4, 12)
LIMIT_S = 0.5

STEPS = {
    "end strays": ("stop end", "release start"),
    "finish": ("release end", "finished"),
    "next claim": ("finished", "claimed"),
    "begin": ("claimed", "provenance start"),
    "provenance": ("provenance start", "preflight start"),
    "preflight": ("preflight start", "launch start"),
}
"""What ddqueue's own share is made of, each with the moments it lies between, in the order of time."""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="ddqueue-bench-") as folder:
        Path(folder).chmod(0o755)  # root's Postgres runs as `nobody`, who must be able to enter
        with ephemeral(Path(folder) / "servers") as servers:
            upgrade(servers.database_url)
            attempts = _run(Installation(Path(folder) / "home", servers.database_url, servers.redis_url))
    if attempts is None:
        return 1
    return _report([_turnaround(former, following) for former, following in pairwise(attempts)])


def _run(installation: Installation) -> list[Mapping[str, Any]] | None:
    """The sweep's attempts in the order they ran; None when a job did not succeed."""
    cells = [f"{{block_size: 8, budget: {budget}, topk: 4, window: 2048}}" for budget in BUDGETS]
    points = ["{concurrency: 1, context: 60, output: 8}"]
    try:
        sweep = installation.submit(sweep_text("turnaround", (HOST,), cells, points))
        installation.start_all(HOST)
        jobs = installation.wait_final(sweep)
        shown = [installation.show(job["job_id"]) for job in jobs]
    finally:
        installation.stop()
    failed = [job for job in shown if job["state"] != JobState.SUCCEEDED or len(job["attempts"]) != 1]
    if failed:
        click.echo(f"no figures: {len(failed)} of {len(shown)} jobs did not succeed at once\n{failed[0]}", err=True)
        return None
    attempts = [{**job["attempts"][0], "finished_at": job["finished_at"]} for job in shown]
    return sorted(attempts, key=lambda attempt: attempt["started_at"])


def _turnaround(former: Mapping[str, Any], following: Mapping[str, Any]) -> dict[str, float]:
    """Seconds from one attempt's stop to the next one's launch: `gap`, `release`, `ours`, and each of STEPS."""
    release = _phase(former, "release")
    moments = {
        "stop end": _end(_phase(former, "stop")),
        "release start": release["started_at"],
        "release end": _end(release),
        "finished": former["finished_at"],
        "claimed": following["started_at"],
        **{f"{name} start": _phase(following, name)["started_at"] for name in ("provenance", "preflight", "launch")},
    }
    steps = {name: (moments[until] - moments[since]).total_seconds() for name, (since, until) in STEPS.items()}
    gap = (moments["launch start"] - moments["stop end"]).total_seconds()
    return {"gap": gap, "release": release["duration_s"], "ours": gap - release["duration_s"], **steps}


def _phase(attempt: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: list[Mapping[str, Any]] = [phase for phase in attempt["phases"] if phase["name"] == name]
    (phase,) = found
    return phase


def _end(phase: Mapping[str, Any]) -> datetime:
    end: datetime = phase["started_at"] + timedelta(seconds=phase["duration_s"])
    return end


def _report(turnarounds: Sequence[Mapping[str, float]]) -> int:
    names = list(turnarounds[0])
    click.echo("Seconds between two jobs on one host; ours = gap - release (the GPUs' own time)\n")
    click.echo(f"{'':<8}" + "".join(f"{name:>12}" for name in names))
    for number, turnaround in enumerate(turnarounds, 1):
        click.echo(f"{number:<8}" + "".join(f"{turnaround[name]:>12.3f}" for name in names))
    for label, summary in (("median", statistics.median), ("min", min), ("max", max)):
        click.echo(f"{label:<8}" + "".join(f"{summary([row[name] for row in turnarounds]):>12.3f}" for name in names))
    ours_s = statistics.median(row["ours"] for row in turnarounds)
    share = ours_s / statistics.median(row["gap"] for row in turnarounds)
    click.echo(f"\nddqueue's own share: {ours_s:.3f} s, {share:.0%} of the gap; at most {LIMIT_S} s is wanted")
    return 0 if ours_s <= LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
