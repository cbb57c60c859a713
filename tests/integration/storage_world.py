"""What the storage tests share: a small sweep, its hosts, and the stores on one database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Engine, text

from ddqueue.domain.configuration import Cell, Parallelism, Speculation
from ddqueue.domain.inventory import Host
from ddqueue.domain.measurement import Measurement, RequestRecord, Summary
from ddqueue.domain.queueing import Claim, Runner
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.domain.sweep import Measure, Point, Sweep, SweepCell, jobs_of
from ddqueue.ports import Submitted
from ddqueue.storage.attempts import PostgresAttemptStore
from ddqueue.storage.control import PostgresControl
from ddqueue.storage.engine import connect, transaction
from ddqueue.storage.pooled_reads import PooledReads
from ddqueue.storage.reading import PostgresReader
from ddqueue.storage.sweeps import PostgresSweepStore

RTX = Host("rtx6000", 8, "RTX PRO 6000", "pcie", simulated_box="pcie")
B300 = Host("b300", 8, "B300", "nvlink", simulated_box="nvlink")
POINTS = (Point(1, 60, 256), Point(32, 4096, 256))
RUNNER = Runner(pid=4242, start_ticks=99, worker="gpu@rtx6000")
SUCCESS = Decision(JobState.SUCCEEDED)


def a_sweep(name: str = "kimi-ddtree", budgets: Sequence[int] = (8, 16), hosts: Sequence[Host] = (RTX, B300)) -> Sweep:
    """A baseline and one tree for each budget, on each host."""
    cells = [SweepCell(Cell("kimi", "sim"), "baseline")]
    cells += [SweepCell(Cell("kimi", "sim", Speculation(8, b, 4, 2048)), f"b{b} t4 w2048") for b in budgets]
    return Sweep(
        name=name,
        model="kimi",
        engine="sim",
        hosts=tuple(host.name for host in hosts),
        parallel={host.name: (Parallelism(8, 8),) for host in hosts},
        cells=tuple(cells),
        measure=Measure(POINTS),
        hypothesis="small budgets win at C=32",
        simulated=True,
        file_name="sweep.yaml",
        file_text=f"name: {name}\n",
    )


def a_measurement(
    point: Point = POINTS[0], repeat: int = 1, tok_s: float | None = 145.0, **changes: Any
) -> Measurement:
    """A plausible valid measurement of two requests."""
    requests = (
        RequestRecord(0, 0.0, 1.7, 60, 256, 0, ((0.2, 4), (1.7, 256)), 70, 186, finish_reason="length"),
        RequestRecord(1, 0.1, 1.8, 60, 256, 0, (), 70, 186, error="TimeoutError()"),
    )
    measurement = Measurement(
        point=point,
        repeat=repeat,
        started_at=datetime(2025, 1, 2, tzinfo=UTC),
        wall_s=1.8,
        requests_completed=2,
        requests_failed=0,
        prompt_tokens=120,
        output_tokens=512,
        cached_share=0.0,
        output_throughput_tok_s=tok_s,
        total_throughput_tok_s=tok_s and tok_s * 1.2,
        ttft_ms=Summary(200.0, 190.0, 250.0, 260.0),
        itl_ms=Summary(6.0, 5.9, 7.0, 8.0),
        e2e_ms=Summary(1700.0, 1700.0, 1750.0, 1760.0),
        acceptance_length=1 + 372 / 140,
        verifies=140,
        correct_drafts=372,
        draft_histogram=(10, 20, 110),
        step_time_ms=21.0,
        requests=requests,
    )
    return replace(measurement, **changes)


@dataclass
class World:
    """One database with every store on it."""

    database_url: str

    def __post_init__(self) -> None:
        self.sql_engine: Engine = connect(self.database_url, "test")
        self.sweeps = PostgresSweepStore(self.sql_engine)
        self.attempts = PostgresAttemptStore(self.sql_engine)
        self.control = PostgresControl(self.sql_engine)
        self.reader = PostgresReader(PooledReads(self.sql_engine))

    def submit(self, sweep: Sweep | None = None, priority: int = 0, hosts: Sequence[Host] = (RTX, B300)) -> Submitted:
        sweep = sweep or a_sweep()
        return self.sweeps.add(sweep, jobs_of(sweep), hosts, priority)

    def jobs(self, host: str = "rtx6000") -> list[int]:
        """The ids of a host's jobs, oldest first."""
        return self.column("SELECT id FROM jobs WHERE host = :host ORDER BY id", host=host)

    def claim(self, job_id: int, host: str = "rtx6000", lease_ttl_s: float = 30.0) -> Claim:
        claim = self.attempts.claim(host, job_id, RUNNER, lease_ttl_s)
        assert claim is not None, f"job {job_id} could not be claimed"
        return claim

    def succeed(self, claim: Claim) -> None:
        self.attempts.finish(claim, AttemptOutcome.SUCCEEDED, SUCCESS)

    def state(self, job_id: int) -> str:
        return str(self.one("SELECT state FROM jobs WHERE id = :id", id=job_id))

    def one(self, query: str, **parameters: Any) -> Any:
        return self.column(query, **parameters)[0]

    def column(self, query: str, **parameters: Any) -> list[Any]:
        with transaction(self.sql_engine) as connection:
            return list(connection.execute(text(query), parameters).scalars())

    def do(self, statement: str, **parameters: Any) -> None:
        with transaction(self.sql_engine) as connection:
            connection.execute(text(statement), parameters)

    def events(self, kind: str) -> list[dict[str, Any]]:
        return self.column("SELECT detail FROM events WHERE kind = :kind ORDER BY id", kind=kind)


def at_once(actions: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run every action in a thread of its own, all let go together; an exception of any is raised here."""
    gate = threading.Barrier(len(actions))
    results: list[Any] = []
    errors: list[Exception] = []

    def run(action: Callable[[], Any]) -> None:
        gate.wait()
        try:
            results.append(action())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
