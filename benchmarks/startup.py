"""What the commands cost that only ask: CPU seconds of whole processes, Python's own start included.

Stores the known sweep of the tests on a Postgres of its own, runs each command seven times in turns with the bare
interpreter, and prints the median of each with its ratio to `python -c pass`. The CPU time of a process hardly knows
what else runs on the machine; its ratio knows less. Postgres's own work is not in it: benchmarks/million_rows.py.

    python benchmarks/startup.py
    python benchmarks/startup.py --beside ../earlier  # the same commands of another working copy, in turns with these
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from known_sweep import stored_known_sweep

from ddqueue.local.servers import ephemeral
from ddqueue.storage.migrate import upgrade

TIMES = 7
SWEEP = "ddtree-block8"
_BARE = "python -c pass"
_DDQUEUE = ("-m", "ddqueue")
COMMANDS: Mapping[str, Sequence[str]] = {
    _BARE: ("-c", "pass"),
    "python -c 'import click'": ("-c", "import click"),
    "python -c 'import psycopg'": ("-c", "import psycopg"),
    "ddqueue --help": (*_DDQUEUE, "--help"),
    "ddqueue status": (*_DDQUEUE, "status"),
    "ddqueue hosts": (*_DDQUEUE, "hosts"),
    f"ddqueue results {SWEEP}": (*_DDQUEUE, "results", SWEEP),
    f"ddqueue report {SWEEP} -o -": (*_DDQUEUE, "report", SWEEP, "-o", "-"),
}
HELP_LIMIT_CPU_S = 0.2


@dataclass
class Cost:
    """Seconds of each run."""

    cpu_s: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)


@click.command()
@click.option("--beside", type=click.Path(exists=True, path_type=Path), help="Another working copy to run as well.")
def main(beside: Path | None) -> None:
    with tempfile.TemporaryDirectory(prefix="ddqueue-bench-") as folder:
        Path(folder).chmod(0o755)  # root's Postgres runs as `nobody`, who must be able to enter
        with ephemeral(Path(folder) / "servers") as servers:
            upgrade(servers.database_url)
            with stored_known_sweep(servers.database_url):
                environment = os.environ | {"DDQUEUE_DATABASE_URL": servers.database_url, "DDQUEUE_HOME": folder}
                here, there = _measured(environment, beside)
    _print("", here)
    if beside is not None:
        _print(f" of {beside}", there)
        click.echo("\nCPU there / here")
        for what, cost in there.items():
            if "ddqueue" in what:
                click.echo(f"{what:<36}{statistics.median(cost.cpu_s) / statistics.median(here[what].cpu_s):>10.2f}")
    sys.exit(statistics.median(here["ddqueue --help"].cpu_s) > HELP_LIMIT_CPU_S)


def _print(of: str, costs: Mapping[str, Cost]) -> None:
    bare_s = statistics.median(costs[_BARE].cpu_s)
    click.echo(f"\nmedians of {TIMES}{of}\n{'':<36}{'CPU (s)':>10}{'of python':>11}{'wall (s)':>10}")
    for what, cost in costs.items():
        cpu_s, wall_s = statistics.median(cost.cpu_s), statistics.median(cost.wall_s)
        click.echo(f"{what:<36}{cpu_s:>10.3f}{cpu_s / bare_s:>10.1f}x{wall_s:>10.3f}")


def _measured(environment: Mapping[str, str], beside: Path | None) -> tuple[dict[str, Cost], dict[str, Cost]]:
    """The runs in turns, so that whatever else the machine does meets every command."""
    here, there = ({what: Cost() for what in COMMANDS} for _ in range(2))
    for turn in range(TIMES + 1):
        for what, arguments in COMMANDS.items():
            _add(here[what], arguments, environment, turn)
            if beside is not None:
                _add(there[what], arguments, {**environment, "PYTHONPATH": str(beside.absolute())}, turn)
    return here, there


def _add(cost: Cost, arguments: Sequence[str], environment: Mapping[str, str], turn: int) -> None:
    cpu_s, wall_s = _run([sys.executable, "-P", *arguments], environment)
    if turn:  # the first one reads files that the others find in memory
        cost.cpu_s.append(cpu_s)
        cost.wall_s.append(wall_s)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """CPU and wall seconds of one process."""
    before, begun_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    after, wall_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - begun_s
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall_s


if __name__ == "__main__":
    main()
