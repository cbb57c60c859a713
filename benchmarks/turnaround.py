"""How long a host stands idle between two jobs, and how much of that is ddqueue's own: `make bench`.

Runs one small sweep on one simulated box, on servers of its own, and reads the times that ddqueue itself stored. The
gap between two jobs goes from the end of one's `stop` to the start of the next one's `launch`. Waiting for the GPUs to
give their memory back (the `release` phase) is not ddqueue's share; everything else is.

Exit code 0 when the median of ddqueue's own share is at most LIMIT_S, 1 when it is more or a job failed.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise

import click
from installed import Installation, Shown, end_of, finished_jobs, installed, sweep_text

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
    with installed() as installation:
        attempts = _run(installation)
    if attempts is None:
        return 1
    return _report([_turnaround(former, following) for former, following in pairwise(attempts)])


def _run(installation: Installation) -> list[Shown] | None:
    """The sweep's attempts in the order they ran; None when a job did not succeed."""
    cells = [f"{{block_size: 8, budget: {budget}, topk: 4, window: 2048}}" for budget in BUDGETS]
    sweep = installation.submit(sweep_text("turnaround", (HOST,), cells, ["{concurrency: 1, context: 60, output: 8}"]))
    installation.start_all(HOST)
    shown = finished_jobs(installation, sweep)
    if shown is None:
        return None
    attempts = [{**job["attempts"][0], "finished_at": job["finished_at"]} for job in shown]
    return sorted(attempts, key=lambda attempt: attempt["started_at"])


def _turnaround(former: Shown, following: Shown) -> dict[str, float]:
    """Seconds from one attempt's stop to the next one's launch: `gap`, `release`, `ours`, and each of STEPS."""
    release = _phase(former, "release")
    moments = {
        "stop end": end_of(_phase(former, "stop")),
        "release start": release["started_at"],
        "release end": end_of(release),
        "finished": former["finished_at"],
        "claimed": following["started_at"],
        **{f"{name} start": _phase(following, name)["started_at"] for name in ("provenance", "preflight", "launch")},
    }
    steps = {name: (moments[until] - moments[since]).total_seconds() for name, (since, until) in STEPS.items()}
    gap = (moments["launch start"] - moments["stop end"]).total_seconds()
    return {"gap": gap, "release": release["duration_s"], "ours": gap - release["duration_s"], **steps}


def _phase(attempt: Shown, name: str) -> Shown:
    (phase,) = (phase for phase in attempt["phases"] if phase["name"] == name)
    found: Shown = phase
    return found


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
