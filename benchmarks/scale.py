"""What submitting, claiming and reading cost at 100, 10,000 and 100,000 jobs, and how they grow: `make bench`.

Each size has a database of its own that holds that many jobs on two hosts, in sweeps of at most 10,000: half of them
have ended with 20 measurements each (a million at the largest size), the others wait. Commands are run whole, but in
this process: what starting Python costs is in benchmarks/startup.py.

Growth is the time's ratio to the size before over the work's: 1 = the cost of a row has stayed. The exit code is 1 when
a limit is not kept, or when a cost has grown faster than the work by more than GROWTH_LIMIT.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import click
import psycopg
from click.testing import CliRunner

from ddqueue.cli.main import cli
from ddqueue.domain.queueing import Claim, Runner
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.files.examples import example
from ddqueue.local.servers import ephemeral
from ddqueue.storage.attempts import PostgresAttemptStore
from ddqueue.storage.dispatching import PostgresDispatchStore
from ddqueue.storage.engine import connect
from ddqueue.storage.migrate import upgrade

Value = TypeVar("Value")

ENDED = Path(__file__).with_suffix(".sql")
HOSTS = ("sim-rtx6000", "sim-b300")
SIZES = (100, 10_000, 100_000)
LARGEST_SWEEP = 10_000
"""Jobs of one sweep; a file may ask for 20,000."""
GOAL_CELLS = 10_000
TIMES, CLAIMS = 3, 40
_RUNNER = Runner(1, 1, "gpu@benchmark")
SUBMIT_LIMIT_S, CLAIM_LIMIT_S, GROWTH_LIMIT = 5.0, 0.005, 2.0


@dataclass(frozen=True)
class Cost:
    """The seconds of each time an action was done at one size; `work` is what it should grow with."""

    action: str
    work: int
    seconds: Sequence[float]
    limit_s: float | None = None

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)

    def growth(self, before: Cost | None) -> float | None:
        """The time's ratio over the work's; None at the first size."""
        return None if before is None else self.median_s / before.median_s / (self.work / before.work)

    def line(self, jobs: int, growth: float | None) -> str:
        """One row of the table, in milliseconds."""
        median, least, most = (1000 * value for value in (self.median_s, min(self.seconds), max(self.seconds)))
        limit = "" if self.limit_s is None else f"{1000 * self.limit_s:,.0f}"
        grown = "" if growth is None else f"{growth:.2f}"
        words = f"{self.action:<34}{jobs:>9,}{self.work:>9,}{median:>12,.2f}{least:>12,.2f}{most:>12,.2f}"
        return f"{words}{grown:>9}{limit:>9}"


@click.command()
@click.option("--jobs", type=int, multiple=True, help=f"Sizes, ascending; without it {SIZES}.")
def main(jobs: tuple[int, ...]) -> None:
    sizes = jobs or SIZES
    measured = {}
    with tempfile.TemporaryDirectory(prefix="ddqueue-bench-") as folder:
        Path(folder).chmod(0o755)  # root's Postgres runs as `nobody`, who must be able to enter
        home = Path(folder) / "home"
        home.mkdir()
        (home / "inventory.yaml").write_text(example("inventory-sim.yaml"))
        for size in sizes:
            with ephemeral(Path(folder) / f"servers-{size}") as servers, _in_use(servers.database_url, home):
                upgrade(servers.database_url)
                measured[size] = {cost.action: cost for cost in _costs(servers.database_url, home, size, sizes)}
    sys.exit(_print(measured))


def _print(measured: Mapping[int, Mapping[str, Cost]]) -> bool:
    """The table; whether something is not as wanted."""
    click.echo(
        f"{'milliseconds':<34}{'jobs':>9}{'work':>9}{'median':>12}{'least':>12}{'most':>12}{'growth':>9}{'limit':>9}"
    )
    broken = []
    for action in dict.fromkeys(action for costs in measured.values() for action in costs):
        before = None
        for size, costs in measured.items():
            if action not in costs:
                continue
            cost = costs[action]
            growth = cost.growth(before)
            click.echo(cost.line(size, growth))
            if cost.limit_s is not None and cost.median_s > cost.limit_s:
                broken.append(f"{action} at {size:,} jobs takes more than {cost.limit_s} s")
            if growth is not None and growth > GROWTH_LIMIT:
                broken.append(f"{action} grows {growth:.1f} times as fast as its work")
            before = cost
    for line in broken:
        click.echo(f"not as wanted: {line}", err=True)
    return bool(broken)


def _costs(database_url: str, home: Path, size: int, sizes: Sequence[int]) -> Iterator[Cost]:
    if size == max(sizes):
        seconds = []
        for _ in range(TIMES):
            seconds.append(_submit(home, "goal", GOAL_CELLS, HOSTS[:1]))
            _do(database_url, "DELETE FROM sweeps")
        yield Cost("submit 10,000 cells, one host", GOAL_CELLS, seconds, SUBMIT_LIMIT_S)
    of_sweep = min(size, LARGEST_SWEEP)
    names = [f"sweep-{number}" for number in range(size // of_sweep)]
    seconds = [_submit(home, name, of_sweep // len(HOSTS), HOSTS) for name in names]
    while len(seconds) < TIMES:  # a further revision, which is taken out again
        seconds.append(_submit(home, names[0], of_sweep // len(HOSTS), HOSTS))
        _do(database_url, "DELETE FROM sweeps WHERE revision > 1")
    yield Cost("submit, one sweep", of_sweep, seconds)
    _do(database_url, ENDED.read_text(), "VACUUM ANALYZE")
    yield from _queueing(database_url)
    page = str(home / "page.html")
    yield _command("status", size)
    yield _command("status", of_sweep, names[-1])
    yield _command("results", of_sweep, names[-1])
    yield _command("report", of_sweep, names[-1], "-o", page, times=TIMES if of_sweep < LARGEST_SWEEP else 1)


def _queueing(database_url: str) -> Iterator[Cost]:
    """Choosing, claiming and finishing, one job after the other, as a dispatcher and the two hosts do."""
    engine, choosing, claiming, finishing = connect(database_url, "benchmark"), [], [], []
    dispatching, store = PostgresDispatchStore(engine), PostgresAttemptStore(engine)
    try:
        with dispatching.lead():
            for _ in range(CLAIMS // len(HOSTS)):
                jobs, seconds = _timed(lambda: dispatching.next_jobs(0.0))
                choosing.append(seconds)
                for job in jobs:
                    claim, seconds = _timed(partial(store.claim, job.host, job.job_id, _RUNNER, 30.0))
                    claiming.append(seconds)
                    finishing.append(_timed(partial(_finish, store, claim))[1])
    finally:
        engine.dispose()
    yield Cost("choose the next jobs", 1, choosing, CLAIM_LIMIT_S)
    yield Cost("claim", 1, claiming, CLAIM_LIMIT_S)
    yield Cost("finish", 1, finishing)


def _finish(store: PostgresAttemptStore, claim: Claim | None) -> None:
    assert claim is not None, "nobody else claims here"
    store.finish(claim, AttemptOutcome.SUCCEEDED, Decision(JobState.SUCCEEDED))


def _submit(home: Path, name: str, cells: int, hosts: Sequence[str]) -> float:
    """Seconds of `ddqueue submit` of a new sweep: the file's reading and checking included."""
    topks, windows = (10, 10) if cells >= 1000 else (5, 2)
    text = f"""
name: {name}
model: kimi-k2.6
engine: sim
hosts: [{", ".join(hosts)}]
parallel: [TP8]
limit: 10000
baseline: true
grid:
  block_size: [8]
  topk: {list(range(2, 2 + topks))}
  window: {[1024 * n for n in range(1, 1 + windows)]}
  budget: {list(range(16, 16 + cells // topks // windows))}
exclude: [{{budget: 16, topk: 2, window: 1024}}]
measure:
  points:
    - {{concurrency: 1, context: 60, output: 32}}
    - {{concurrency: 32, context: 4096, output: 32}}
  repeats: {{min: 3, max: 10, within: 0.03}}
"""
    path = home / "sweep.yaml"
    path.write_text(text)
    return _run("submit", str(path))


def _command(command: str, work: int, *arguments: str, times: int = TIMES) -> Cost:
    what = f"{command} SWEEP" if arguments else command
    return Cost(what, work, [_run(command, *arguments) for _ in range(times)])


def _run(*arguments: str) -> float:
    """Seconds of a command in this process."""
    result, seconds = _timed(lambda: CliRunner().invoke(cli, arguments, catch_exceptions=False))
    if result.exit_code:
        raise click.ClickException(f"ddqueue {' '.join(arguments)}: {result.output}")
    return seconds


def _timed(action: Callable[[], Value]) -> tuple[Value, float]:
    begun_s = time.perf_counter()
    value = action()
    return value, time.perf_counter() - begun_s


def _do(database_url: str, *statements: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@contextmanager
def _in_use(database_url: str, home: Path) -> Iterator[None]:
    """The commands find this database and this inventory."""
    added = {
        "DDQUEUE_DATABASE_URL": database_url,
        "DDQUEUE_HOME": str(home),
        "DDQUEUE_INVENTORY": str(home / "inventory.yaml"),
    }
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


if __name__ == "__main__":
    main()
