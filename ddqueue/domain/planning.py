"""What a sweep would do, worked out before anything is done: jobs, restarts, points, expected time, cautions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from ddqueue.domain.latency_limits import LatencyLimits
from ddqueue.domain.preflight.finding import Finding, Severity
from ddqueue.domain.sweep import JobSpec, Measure, Point, Sweep
from ddqueue.domain.tree import is_chain_budget

FEWEST_REPEATS = 3
"""Two values always agree with some line; a 95% interval of the mean needs at least three to say anything."""

MANY_CELLS = 4
"""Among so many cells the fastest is as likely the luckiest, so that the noise between starts must be known."""


class Caution(StrEnum):
    """What a person should know about a sweep that is allowed all the same."""

    CHAIN_BUDGET = "chain budget"
    OUT_OF_DISTRIBUTION = "out of distribution"
    PIPELINE_WITH_SPECULATION = "pipeline with speculation"
    ONE_CELL = "one cell"
    NO_BASELINE = "no baseline"
    NO_CODING = "no coding checks"
    CODING_WITHOUT_BASELINE = "coding without baseline"
    CODING_WITHOUT_LOAD = "coding without load"
    FEW_REPEATS = "few repeats"
    NO_CONTROL = "no control"


@dataclass(frozen=True)
class PlanWarning:
    """One caution, in words."""

    caution: Caution
    text: str


@dataclass(frozen=True)
class Assumptions:
    """What expected times rest on while nothing has been measured: round figures, not results.

    One warm-up and then the repeats run for every point; a repeat is one wave of `concurrency` requests. Prompts are
    processed one after the other at `prefill_tok_s` for the whole server; every request then decodes at
    `decode_tok_s`. A coding suite counts as `coding_problems` answers of `coding_answer_tok` tokens.
    """

    start_up_s: float
    stop_s: float
    prefill_tok_s: float
    decode_tok_s: float
    coding_problems: int
    coding_answer_tok: int


REAL = Assumptions(
    start_up_s=600, stop_s=60, prefill_tok_s=5_000, decode_tok_s=30, coding_problems=5, coding_answer_tok=1_024
)
SIMULATED = Assumptions(
    start_up_s=3, stop_s=1, prefill_tok_s=50_000, decode_tok_s=100, coding_problems=5, coding_answer_tok=256
)

JobKey = tuple[str, str, str]
"""(cell hash, host, parallelism label): what names a job before it has an id."""


def key_of(job: JobSpec) -> JobKey:
    """The key under which an earlier attempt of the same work is found."""
    return (job.cell.cell.hash, job.host, job.parallelism.label)


@dataclass(frozen=True)
class PlannedJob:
    """One server restart and everything measured on it: one visit of a cell.

    `expected_s` counts the fewest repeats, `longest_s` the most. `measured`: both are the duration of an earlier
    attempt of the same cell on the same host, not an assumption. `findings`: what is known before any server starts;
    with an error among them none does, and both times are 0.
    """

    cell: str
    label: str
    host: str
    parallelism: str
    out_of_distribution: bool
    expected_s: float
    longest_s: float
    measured: bool = False
    findings: tuple[Finding, ...] = ()
    visit: int = 1
    control: bool = False

    @property
    def refusal(self) -> Finding | None:
        """The first error: how the job would end, at once."""
        return next((finding for finding in self.findings if finding.severity is Severity.ERROR), None)


@dataclass(frozen=True)
class HostPlan:
    """The jobs of one host, in order; hosts work at the same time, a host's jobs one after the other."""

    host: str
    jobs: tuple[PlannedJob, ...]
    points_per_server: int

    @property
    def restarts(self) -> int:
        """One for every job that is not refused: the server is never reused."""
        return sum(job.refusal is None for job in self.jobs)

    @property
    def expected_s(self) -> float:
        return sum(job.expected_s for job in self.jobs)

    @property
    def longest_s(self) -> float:
        return sum(job.longest_s for job in self.jobs)


@dataclass(frozen=True)
class Plan:
    """The whole of it; the sweep is done when its slowest host is."""

    sweep: str
    model: str
    engine: str
    simulated: bool
    points: tuple[str, ...]
    folded: int
    hosts: tuple[HostPlan, ...]
    assumptions: Assumptions
    warnings: tuple[PlanWarning, ...]
    visits: int = 1
    control_every: int | None = None
    """After at most how many jobs the control cell comes again; None without one."""
    goodput: LatencyLimits | None = None
    """What a request must keep to count for goodput, if the sweep says so."""
    prune: bool = False
    """Configurations that others dominate may be given up early, so that it may be done sooner."""

    @property
    def control_jobs(self) -> int:
        return sum(job.control for host in self.hosts for job in host.jobs)

    @property
    def jobs(self) -> int:
        return sum(len(host.jobs) for host in self.hosts)

    @property
    def expected_s(self) -> float:
        return max((host.expected_s for host in self.hosts), default=0.0)

    @property
    def longest_s(self) -> float:
        return max((host.longest_s for host in self.hosts), default=0.0)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, with the totals."""
        return {
            "sweep": self.sweep,
            "model": self.model,
            "engine": self.engine,
            "simulated": self.simulated,
            "points": list(self.points),
            "folded": self.folded,
            "visits": self.visits,
            "control_every": self.control_every,
            "goodput": None if self.goodput is None else self.goodput.to_json(),
            "prune": self.prune,
            "jobs": self.jobs,
            "control_jobs": self.control_jobs,
            "restarts": sum(host.restarts for host in self.hosts),
            "expected_s": self.expected_s,
            "longest_s": self.longest_s,
            "hosts": [
                {
                    "host": host.host,
                    "restarts": host.restarts,
                    "points_per_server": host.points_per_server,
                    "expected_s": host.expected_s,
                    "longest_s": host.longest_s,
                    "jobs": [asdict(job) for job in host.jobs],
                }
                for host in self.hosts
            ],
            "assumptions": asdict(self.assumptions),
            "warnings": [{"caution": warning.caution.value, "text": warning.text} for warning in self.warnings],
        }


def expected_repeat_s(point: Point, assumptions: Assumptions) -> float:
    """How long one repeat of a point takes: all prompts in turn, then all answers side by side."""
    return point.concurrency * point.context / assumptions.prefill_tok_s + point.output / assumptions.decode_tok_s


def expected_job_s(measure: Measure, repeats: int, assumptions: Assumptions) -> float:
    """How long one job takes with `repeats` of every point: start, warm-ups, points, coding checks, stop."""
    points_s = sum(expected_repeat_s(point, assumptions) * (1 + repeats) for point in measure.points)
    coding_s = 0.0
    if measure.coding is not None:
        answer_s = assumptions.coding_answer_tok / assumptions.decode_tok_s
        waves = sum(math.ceil(assumptions.coding_problems / in_flight) for in_flight in measure.coding.concurrency)
        coding_s = waves * answer_s
    return assumptions.start_up_s + points_s + coding_s + assumptions.stop_s


def planned_job(
    job: JobSpec,
    measure: Measure,
    assumptions: Assumptions,
    known_s: Mapping[JobKey, float],
    findings: tuple[Finding, ...] = (),
) -> PlannedJob:
    """The job with its expected time: an earlier attempt's where `known_s` has one, none where it is refused."""
    refused = any(finding.severity is Severity.ERROR for finding in findings)
    known = 0.0 if refused else known_s.get(key_of(job))
    return PlannedJob(
        cell=job.cell.cell.hash,
        label=job.cell.label,
        host=job.host,
        parallelism=job.parallelism.label,
        out_of_distribution=job.cell.out_of_distribution,
        expected_s=expected_job_s(measure, measure.repeats.minimum, assumptions) if known is None else known,
        longest_s=expected_job_s(measure, measure.repeats.maximum, assumptions) if known is None else known,
        measured=known is not None and not refused,
        findings=findings,
        visit=job.visit,
        control=job.control,
    )


def cautions(sweep: Sweep, jobs: Sequence[JobSpec]) -> list[PlanWarning]:
    """Everything to know before this sweep is submitted; `jobs` are those that a check has not refused already."""
    return [*_tree_cautions(sweep), *_parallel_cautions(jobs), *_comparison_cautions(sweep), *_coding_cautions(sweep)]


def _tree_cautions(sweep: Sweep) -> list[PlanWarning]:
    chains, untrained = [], []
    for one in sweep.cells:
        spec = one.cell.speculation
        if spec is not None and spec.budget is not None and is_chain_budget(spec.budget, spec.depth_limit):
            chains.append(f"{one.label} (budget {spec.budget}, depth limit {spec.depth_limit})")
        if one.out_of_distribution:
            untrained.append(one.label)
    found = []
    if chains:
        text = f"a budget no larger than the depth limit has room only for a chain's worth of nodes: {_listed(chains)}"
        found.append(PlanWarning(Caution.CHAIN_BUDGET, text))
    if untrained:
        text = f"the drafter was not trained for this block size; it may crash or accept little: {_listed(untrained)}"
        found.append(PlanWarning(Caution.OUT_OF_DISTRIBUTION, text))
    return found


def _parallel_cautions(jobs: Sequence[JobSpec]) -> list[PlanWarning]:
    piped = {
        f"{job.parallelism.label} on {job.host}": None
        for job in jobs
        if job.parallelism.pp > 1 and not job.cell.cell.is_baseline
    }
    if not piped:
        return []
    text = f"DFlash speculation supports pp 1 only; these are expected to end as unsupported: {_listed(list(piped))}"
    return [PlanWarning(Caution.PIPELINE_WITH_SPECULATION, text)]


def _comparison_cautions(sweep: Sweep) -> list[PlanWarning]:
    found = []
    if len(sweep.cells) == 1:
        found.append(PlanWarning(Caution.ONE_CELL, "one cell only: nothing to compare it with on the same host"))
    if not _has_baseline(sweep):
        text = "no baseline: break-even acceptance and correctness need a cell without speculation (baseline: true)"
        found.append(PlanWarning(Caution.NO_BASELINE, text))
    if sweep.measure.repeats.minimum < FEWEST_REPEATS:
        text = f"fewer than {FEWEST_REPEATS} repeats say nothing about noise (repeats: {{min: {FEWEST_REPEATS}}})"
        found.append(PlanWarning(Caution.FEW_REPEATS, text))
    if len(sweep.cells) >= MANY_CELLS and sweep.measure.control is None and sweep.measure.visits == 1:
        text = (
            f"{len(sweep.cells)} cells, each started once, and no control cell: the noise floor is unknown "
            "(measure: {control: {cell: baseline, every: 5}}, or {visits: 3})"
        )
        found.append(PlanWarning(Caution.NO_CONTROL, text))
    return found


def _coding_cautions(sweep: Sweep) -> list[PlanWarning]:
    coding = sweep.measure.coding
    if coding is None:
        text = "no coding checks: speculation can return wrong text fast, and nothing here would notice"
        return [PlanWarning(Caution.NO_CODING, text)]
    found = []
    if not _has_baseline(sweep):
        text = "coding checks without a baseline: nothing says how many the model solves without speculation"
        found.append(PlanWarning(Caution.CODING_WITHOUT_BASELINE, text))
    if max(coding.concurrency) == 1 < max(point.concurrency for point in sweep.measure.points):
        text = "coding checks at C=1 only: drafts that corrupt answers under load stay unseen"
        found.append(PlanWarning(Caution.CODING_WITHOUT_LOAD, text))
    return found


def _has_baseline(sweep: Sweep) -> bool:
    return any(one.cell.is_baseline for one in sweep.cells)


def _listed(words: Sequence[str], most: int = 6) -> str:
    rest = len(words) - most
    return ", ".join(words[:most]) + (f" and {rest} more" if rest > 0 else "")
