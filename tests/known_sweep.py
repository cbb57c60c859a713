"""A sweep whose every number is known, stored as attempts store theirs, for tests of the views and of the document of
questions.

Two boxes run a baseline (the control cell, three visits) and four trees. A step takes `STEP_MS` on the PCIe box and
half of it on the NVLink one; a tree's step takes as often the baseline's as `FACTORS` says, and accepts what its
histogram holds. So a repeat gives concurrency * acceptance / step tokens per second, times what start and repeat add.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine, text

from ddqueue.domain.coding import Answer, Outcome, Problem, Score, Scored, Suite
from ddqueue.domain.configuration import Cell, Parallelism, Speculation
from ddqueue.domain.failures import Failure
from ddqueue.domain.inventory import Host
from ddqueue.domain.marks import Mark
from ddqueue.domain.measurement import Invalid, Measurement, Summary
from ddqueue.domain.queueing import Claim, PhaseRecord, Runner
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.domain.sweep import Control, Measure, OutOfDistribution, Point, Repeats, Sweep, SweepCell, jobs_of
from ddqueue.storage.attempts import PostgresAttemptStore
from ddqueue.storage.engine import connect, transaction
from ddqueue.storage.sweeps import PostgresSweepStore

Row = dict[str, Any]

PCIE = Host("rtx6000", 8, "RTX PRO 6000", "pcie")
NVLINK = Host("b300", 8, "B300", "nvlink")
PARALLEL = {"rtx6000": Parallelism(tp=8, ep=8), "b300": Parallelism(tp=8)}

SHORT, LONG, CROWD = Point(1, 60, 256), Point(1, 4096, 256), Point(32, 4096, 256)
STEP_MS = {SHORT: 20.0, LONG: 25.0, CROWD: 50.0}
"""The baseline's, on the PCIe box."""

BASELINE = "baseline"
B4, B8, B16, BS16 = TREES = ("b4 t4 w2048", "b8 t4 w2048", "b16 t4 w2048", "bs16 b8 t4 w2048")
FACTORS = {
    BASELINE: {SHORT: 1.0, LONG: 1.0, CROWD: 1.0},
    B4: {SHORT: 1.5, LONG: 1.5, CROWD: 2.5},
    B8: {SHORT: 1.9, LONG: 1.6, CROWD: 4.4},
    B16: {SHORT: 2.5, LONG: 2.5, CROWD: 6.0},
    BS16: {SHORT: 2.0, LONG: 2.0, CROWD: 4.4},
}
"""A cell's step time over the baseline's: its break-even acceptance."""

HISTOGRAMS = {
    B4: (10, 20, 40, 20, 10, 0, 0, 0),
    B8: (10, 12, 19, 21, 18, 10, 5, 5),
    B16: (5, 10, 15, 20, 20, 15, 10, 5),
    BS16: (40, 20, 10, 10, 5, 5, 5, 5, 0, 0, 0, 0, 0, 0, 0, 0),
}
"""Of 100 verifies: acceptance lengths 3.0, 4.0, 4.5 and 2.8."""

DIFFERS = ("b300", B16)
"""One cell that accepts less on one box: 3.15."""
DIFFERENT_HISTOGRAM = (20, 20, 20, 20, 10, 5, 5, 0)

STARTS = (1.0, 0.98, 1.02)
"""What the visits of the control cell are worth."""
REPEATS = (0.99, 1.0, 1.01)
"""What the repeats of a visit are worth."""

RAN_SHORT = ("rtx6000", B4)
"""One cell with a fourth repeat, of the first point, that is not valid."""
CAPPED = ("rtx6000", B8)
"""One cell whose GPUs ran at their power limit under load."""
NEVER_RUNS = ("b300", B4)
HANGS_ONCE = ("b300", B16)
DIES_ONCE = ("rtx6000", B8)

BEGINNING = datetime(2025, 3, 1, 20, 0, tzinfo=UTC)
EACH_TAKES = timedelta(minutes=8)
PAUSE = timedelta(minutes=2)
"""Between two attempts on a host."""

SUITE = Suite("core5", tuple(Problem(f"p{n}", "", "f", "") for n in range(1, 6)), "digest")
SLOWER = 0.97
"""What the second sweep's baseline, alone on the PCIe box a day later, is worth."""


def known_sweep() -> Sweep:
    """Baseline, trees and one block size that the drafter was not trained for."""
    cells = [SweepCell(Cell("kimi-k2.6", "sglang-ddtree"), BASELINE)]
    cells += [_tree(label, 8, budget) for label, budget in zip(TREES[:3], (4, 8, 16), strict=True)]
    cells.append(replace(_tree(BS16, 16, 8), out_of_distribution=True))
    return Sweep(
        name="ddtree-block8",
        model="kimi-k2.6",
        engine="sglang-ddtree",
        hosts=(PCIE.name, NVLINK.name),
        parallel={name: (parallelism,) for name, parallelism in PARALLEL.items()},
        cells=tuple(cells),
        measure=Measure(tuple(STEP_MS), Repeats(3, 4), control=Control(cells[0].cell.hash, every=2)),
        hypothesis="small budgets win at C=32",
        out_of_distribution=OutOfDistribution.ALLOW,
    )


@contextmanager
def stored_known_sweep(database_url: str) -> Iterator[Engine]:
    """The database with both sweeps in it, all jobs ended."""
    sql_engine = connect(database_url, "known sweep")
    try:
        first = known_sweep()
        later = replace(first, name="ddtree-again", hosts=(PCIE.name,), cells=first.cells[:1], measure=Measure((LONG,)))
        for sweep, worth in ((first, 1.0), (later, SLOWER)):
            PostgresSweepStore(sql_engine).add(sweep, jobs_of(sweep), [PCIE, NVLINK])
            for host in sweep.hosts:
                _Box(sql_engine, host, worth).run_all()
        _on_the_clock(sql_engine)
        yield sql_engine
    finally:
        sql_engine.dispose()


def step_ms(host: str, label: str, point: Point) -> float:
    """What a step takes there, in milliseconds."""
    return STEP_MS[point] * FACTORS[label][point] * (0.5 if host == NVLINK.name else 1.0)


def acceptance(host: str, label: str) -> float:
    """Tokens per verify; 1 for the baseline."""
    histogram = histogram_of(host, label)
    return 1.0 if histogram is None else 1 + sum(k * count for k, count in enumerate(histogram)) / sum(histogram)


def histogram_of(host: str, label: str) -> tuple[int, ...] | None:
    """Of one repeat; None for the baseline."""
    return DIFFERENT_HISTOGRAM if (host, label) == DIFFERS else HISTOGRAMS.get(label)


def tok_s(host: str, label: str, point: Point) -> float:
    """Output tokens per second, before start and repeat have added theirs."""
    return point.concurrency * 1000 * acceptance(host, label) / step_ms(host, label, point)


def visits(host: str, label: str, point: Point) -> list[list[float]]:
    """The output tokens per second of every valid repeat, visit by visit."""
    rate = tok_s(host, label, point)
    return [[rate * start * worth for worth in REPEATS] for start in (STARTS if label == BASELINE else (1.0,))]


def rows(sql_engine: Engine, query: str) -> list[Row]:
    """What the query gives."""
    with transaction(sql_engine) as connection:
        return [dict(row) for row in connection.execute(text(query)).mappings()]


def point_of(row: Row) -> Point:
    """The point that a row of a view belongs to."""
    return Point(row["concurrency"], row["context_tokens"], row["output_tokens_asked"])


def _tree(label: str, block_size: int, budget: int) -> SweepCell:
    return SweepCell(Cell("kimi-k2.6", "sglang-ddtree", Speculation(block_size, budget, 4, 2048)), label)


@dataclass
class _Box:
    """One host, which takes its jobs in order."""

    sql_engine: Engine
    host: str
    worth: float

    def __post_init__(self) -> None:
        self._store = PostgresAttemptStore(self.sql_engine)

    def run_all(self) -> None:
        """Every queued job, until it has ended."""
        for job_id, label, visit in self._queued():
            here = (self.host, label)
            if here == NEVER_RUNS:
                self._fail(
                    self._claim(job_id), Decision(JobState.FAILED), Failure.OOM_CAPTURE, "out of memory: 2.00 GiB"
                )
                continue
            if here == HANGS_ONCE:
                again = Decision(JobState.QUEUED)
                self._fail(self._claim(job_id), again, Failure.NCCL_HANG, "rank 3 did not join")
            if here == DIES_ONCE:
                self._claim(job_id)
                self._store.requeue_dead(self.host, "the attempt's process is gone")
            self._measure(self._claim(job_id), label, STARTS[visit - 1] if label == BASELINE else 1.0)

    def _queued(self) -> list[tuple[int, str, int]]:
        query = """
            SELECT j.id, c.label, j.visit FROM jobs AS j
            JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
            WHERE j.host = :host AND j.state = 'queued' ORDER BY j.position"""
        with transaction(self.sql_engine) as connection:
            return [tuple(row) for row in connection.execute(text(query), {"host": self.host})]

    def _claim(self, job_id: int) -> Claim:
        claim = self._store.claim(self.host, job_id, Runner(4242, 99, f"gpu@{self.host}"), 30.0)
        assert claim is not None
        return claim

    def _fail(self, claim: Claim, decision: Decision, failure: Failure, evidence: str) -> None:
        self._store.finish(claim, AttemptOutcome.FAILED, decision, failure, evidence)

    def _measure(self, claim: Claim, label: str, start: float) -> None:
        for point in claim.measure.points:
            for repeat, worth in enumerate(REPEATS, start=1):
                self._store.record_measurement(claim, self._repeat(claim, label, point, repeat, start * worth))
        if (self.host, label) == RAN_SHORT:
            bad = self._repeat(claim, label, SHORT, len(REPEATS) + 1, 9.0)
            self._store.record_measurement(claim, replace(bad, reasons=(Invalid.SHORT_OUTPUT,)))
        if claim.measure.control is not None:
            self._check(claim, label)
        for phase in _phases():
            self._store.record_phase(claim, phase)
        self._store.finish(claim, AttemptOutcome.SUCCEEDED, Decision(JobState.SUCCEEDED))

    def _check(self, claim: Claim, label: str) -> None:
        """Every answer passes, but for one where the drafter was not trained."""
        answers = [Answer(problem.name, 1, 0, BEGINNING, 2.0, "def f(): ...") for problem in SUITE.problems]
        wrong = label == BS16
        outcomes = [Outcome.FAILED if wrong and answer.problem == "p5" else Outcome.PASSED for answer in answers]
        self._store.record_answers(claim, SUITE, answers)
        scored = [Scored(a, Score(o, "whole", "ran", "def f(): ...")) for a, o in zip(answers, outcomes, strict=True)]
        self._store.record_scores(claim, "ddqueue", scored)

    def _repeat(self, claim: Claim, label: str, point: Point, repeat: int, worth: float) -> Measurement:
        rate = tok_s(self.host, label, point) * worth * self.worth
        itl_ms = step_ms(self.host, label, point) / acceptance(self.host, label)
        ttft_ms = 10 + point.context / 10
        histogram = histogram_of(self.host, label)
        tokens = 4 * point.concurrency * point.output
        return Measurement(
            point=point,
            repeat=repeat,
            started_at=BEGINNING + timedelta(hours=claim.job_id, minutes=repeat),
            wall_s=tokens / rate,
            requests_completed=4 * point.concurrency,
            requests_failed=0,
            prompt_tokens=4 * point.concurrency * point.context,
            output_tokens=tokens,
            cached_share=0.0,
            output_throughput_tok_s=rate,
            total_throughput_tok_s=rate * (1 + point.context / point.output),
            ttft_ms=_summary(ttft_ms),
            itl_ms=_summary(itl_ms),
            tpot_ms=_summary(itl_ms),
            e2e_ms=_summary(ttft_ms + itl_ms * point.output),
            acceptance_length=None if histogram is None else acceptance(self.host, label),
            verifies=None if histogram is None else sum(histogram),
            correct_drafts=None if histogram is None else sum(k * count for k, count in enumerate(histogram)),
            draft_histogram=histogram,
            step_time_ms=step_ms(self.host, label, point),
            marks=(Mark.POWER_CAPPED,) if (self.host, label) == CAPPED and point == CROWD else (),
            energy_per_token_j=4000 / tok_s(self.host, label, point),
        )


def _summary(mean: float) -> Summary:
    return Summary(mean, mean, mean * 1.2, mean * 1.5)


def _phases() -> Iterable[PhaseRecord]:
    """What an attempt records; the server's own phases lie within `ready`. `_on_the_clock` moves them to the attempt's
    own time."""
    steps = [("launch", 0, 1.0), ("ready", 1, 60.0), ("load weights", 2, 40.0), ("capture graphs", 42, 19.0)]
    steps += [("measure", 61 + 40 * n, 40.0) for n in range(9)] + [("stop", 421, 5.0)]
    return [PhaseRecord(name, BEGINNING + timedelta(seconds=at), duration_s) for name, at, duration_s in steps]


def _on_the_clock(sql_engine: Engine) -> None:
    """Every host's attempts one after the other, as if each had taken EACH_TAKES: the database's own clock gave them
    milliseconds."""
    moved = """
        UPDATE attempts SET started_at = t.at, ended_at = t.at + CAST(:lasts AS interval)
        FROM (
            SELECT id, CAST(:beginning AS timestamptz)
                + (row_number() OVER (PARTITION BY host ORDER BY id) - 1) * CAST(:each AS interval) AS at
            FROM attempts
        ) AS t
        WHERE t.id = attempts.id"""
    phases = """
        UPDATE phases SET started_at = a.started_at + (phases.started_at - :beginning)
        FROM attempts AS a WHERE a.id = phases.attempt_id"""
    with transaction(sql_engine) as connection:
        given = {"beginning": BEGINNING, "lasts": EACH_TAKES, "each": EACH_TAKES + PAUSE}
        connection.execute(text(moved), given)
        connection.execute(text(phases), {"beginning": BEGINNING})
