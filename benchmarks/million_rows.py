"""How long the questions of docs/sql.md and ddqueue's own reading take with a million measurements.

Builds a year of sweeps on a Postgres of its own (some minutes on a busy machine), asks each question five times and
prints the seconds. Exit code 0 when every median is within its limit.

    python benchmarks/million_rows.py              # the table
    python benchmarks/million_rows.py --explain 3  # and where question 3 spends its time
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click
import psycopg

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from sql_questions import questions

from ddqueue.local.servers import ephemeral
from ddqueue.storage.asking import ask
from ddqueue.storage.engine import connect
from ddqueue.storage.migrate import upgrade
from ddqueue.storage.pooled_reads import PooledReads
from ddqueue.storage.reading import PostgresReader

ROWS = Path(__file__).with_suffix(".sql")
SWEEP = "ddtree-block8"
TIMES = 5
QUESTION_LIMIT_S, STATUS_LIMIT_S, RESULTS_LIMIT_S = 1.0, 0.3, 1.0
COMMAND_RATIO = 1.25
"""What a whole `ddqueue status` may take at most, as a multiple of a Python that imports the driver and ends: that
alone is 0.2 to 0.35 s on two busy cores, and no command can be quicker."""


@dataclass(frozen=True)
class Timing:
    """What was asked, the seconds of each time, and how many may be; None = not judged."""

    what: str
    seconds: tuple[float, ...]
    limit_s: float | None

    @property
    def is_slow(self) -> bool:
        return self.limit_s is not None and statistics.median(self.seconds) > self.limit_s

    @property
    def line(self) -> str:
        limit = "-" if self.limit_s is None else f"{self.limit_s:.1f}"
        words = f"{self.what[:64]:<66}{statistics.median(self.seconds):>8.3f}{min(self.seconds):>8.3f}{limit:>7}"
        return f"{words}  slow" if self.is_slow else words


@click.command()
@click.option("--explain", type=int, multiple=True, help="Print the plan of this question, as it ran.")
def main(explain: tuple[int, ...]) -> None:
    with tempfile.TemporaryDirectory(prefix="ddqueue-bench-") as folder:
        Path(folder).chmod(0o755)  # root's Postgres runs as `nobody`, who must be able to enter
        with ephemeral(Path(folder) / "servers") as servers:
            upgrade(servers.database_url)
            _build(servers.database_url)
            timings = [*_questions(servers.database_url), *_reading(servers.database_url)]
            timings += _commands(servers.database_url, Path(folder) / "home")
            click.echo(f"\n{'seconds':<66}{'median':>8}{'least':>8}{'limit':>7}")
            for timing in timings:
                click.echo(timing.line)
            ratio = _start_ratio(servers.database_url, Path(folder) / "home")
            click.echo(f"a whole `ddqueue status` is {ratio:.2f} times a Python that only imports psycopg")
            for number in explain:
                _explain(servers.database_url, number)
    sys.exit(any(timing.is_slow for timing in timings) or ratio > COMMAND_RATIO)


def _build(database_url: str) -> None:
    begun_s = time.monotonic()
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(ROWS.read_bytes())
        connection.execute("VACUUM ANALYZE")
        sizes = connection.execute(
            "SELECT count(*), pg_size_pretty(pg_database_size(current_database())) FROM measurements"
        )
        rows, size = sizes.fetchone() or (0, "")
    click.echo(f"built {rows:,} measurements ({size}) in {time.monotonic() - begun_s:.0f} s")


def _questions(database_url: str) -> list[Timing]:
    return [
        _timed(f"{one.number}. {one.title}", lambda one=one: ask(database_url, one.query, 120), QUESTION_LIMIT_S)
        for one in questions()
    ]


def _reading(database_url: str) -> list[Timing]:
    """What the commands ask of the database."""
    sql_engine = connect(database_url, "benchmark")
    reader = PostgresReader(PooledReads(sql_engine))
    sweep_id = reader.sweep(SWEEP).sweep_id

    def status() -> None:
        reader.hosts()
        reader.sweeps()
        reader.queue()

    try:
        return [
            _timed("read for `status`", status, STATUS_LIMIT_S),
            _timed(f"read for `status {SWEEP}`", lambda: reader.jobs(sweep_id), STATUS_LIMIT_S),
            _timed(f"read for `results {SWEEP}`", lambda: reader.results(sweep_id), RESULTS_LIMIT_S),
        ]
    finally:
        sql_engine.dispose()


def _commands(database_url: str, home: Path) -> list[Timing]:
    """Whole commands: Python's own start and what is made of the rows included."""
    run = _runner(database_url, home)
    return [
        _timed("`ddqueue status`, the whole command", lambda: run("-m", "ddqueue", "status"), None),
        _timed(f"`ddqueue results {SWEEP}`, the whole command", lambda: run("-m", "ddqueue", "results", SWEEP), None),
        _timed("Python that imports psycopg and ends", lambda: run("-c", "import psycopg"), None),
    ]


def _start_ratio(database_url: str, home: Path) -> float:
    """Of two medians that were taken turn by turn."""
    run = _runner(database_url, home)
    pairs = [
        (
            _timed("", lambda: run("-m", "ddqueue", "status"), None, times=1).seconds[0],
            _timed("", lambda: run("-c", "import psycopg"), None, times=1).seconds[0],
        )
        for _ in range(4 * TIMES)
    ]
    return statistics.median(whole for whole, _ in pairs) / statistics.median(least for _, least in pairs)


def _runner(database_url: str, home: Path) -> Callable[..., None]:
    environment = os.environ | {"DDQUEUE_DATABASE_URL": database_url, "DDQUEUE_HOME": str(home)}

    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)

    return run


def _timed(what: str, action: Callable[[], object], limit_s: float | None, times: int = TIMES) -> Timing:
    seconds = []
    for _ in range(times):
        begun_s = time.monotonic()
        action()
        seconds.append(time.monotonic() - begun_s)
    return Timing(what, tuple(seconds), limit_s)


def _explain(database_url: str, number: int) -> None:
    with suppress(StopIteration), psycopg.connect(database_url) as connection:
        query = next(one.query for one in questions() if one.number == number)
        click.echo(f"\n{number}.")
        for (line,) in connection.execute(b"EXPLAIN (ANALYZE, BUFFERS) " + query.encode()):
            click.echo(line)


if __name__ == "__main__":
    main()
