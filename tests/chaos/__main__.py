"""`python -m tests.chaos --jobs 60 --seed 7`: exit code 0 when no promise was broken, 1 when one was."""

from __future__ import annotations

import shutil
import signal
import sys

import click

from ddqueue.errors import UsageError

from .checker import check
from .faults import FaultKind
from .report import report
from .run import Options, run
from .world import BROKEN, open_folder

BUILDS = ("fence", "inherit", "ownership")
"""The broken builds that `broken/` can make."""


@click.command()
@click.option("--jobs", type=click.IntRange(1), default=60, show_default=True)
@click.option("--seed", type=int, default=7, show_default=True, help="Deals the faults and the clients' script.")
@click.option("--hosts", type=click.IntRange(1, 8), default=2, show_default=True)
@click.option("--servers", type=click.Choice(["embedded", "system"]), default="embedded", show_default=True)
@click.option("--faults", help="Only these kinds, by comma: " + ", ".join(FaultKind))
@click.option("--strikes", type=int, help="End after so many hits; else when no job is open.")
@click.option("--calm-s", type=float, default=300.0, show_default=True, help="What open jobs may take afterwards.")
@click.option("--pause-s", type=float, default=2.0, show_default=True, help="Between two faults, on average.")
@click.option("--broken", type=click.Choice(BUILDS), help=f"A build with a promise taken out ({BROKEN.name}/).")
@click.option("--keep", is_flag=True, help="Keep the run's folder, with logs and history, also when all is well.")
def main(
    jobs: int,
    seed: int,
    hosts: int,
    servers: str,
    faults: str | None,
    strikes: int | None,
    calm_s: float,
    pause_s: float,
    broken: str | None,
    keep: bool,
) -> None:
    """Run jobs while everything under them breaks, and judge what happened."""
    try:
        kinds = tuple(FaultKind(word) for word in faults.split(",")) if faults else tuple(FaultKind)
    except ValueError as error:
        raise click.BadParameter(f"{error}; known are {', '.join(FaultKind)}", param_hint="--faults") from error
    options = Options(jobs, seed, hosts, servers, kinds, strikes, pause_s, broken, calm_limit_s=calm_s)
    # A run that is told to end takes down what it has set up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = open_folder()
    click.echo(f"chaos: seed {seed}, {jobs} jobs, {hosts} hosts" + (f", broken build: {broken}" if broken else ""))
    try:
        finished = run(options, folder, lambda line: click.echo(f"  {line}", err=True))
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    finished.history.save(folder / "history.json")
    violations = check(finished.history)
    for line in report(finished, violations):
        click.echo(line)
    if violations or keep:
        click.echo(f"kept: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if violations else 0)


main()
