"""When a host will be through with its queue: from what earlier jobs of the same sweep took there, step by step.

Where nothing has been measured yet the plan's assumption stands in, and the answer says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from ddqueue.domain.queueing import PhaseRecord


@dataclass(frozen=True)
class Expected:
    """How long one job takes, in seconds. `steps_s` splits it by step, in total over all times the step is taken.

    `jobs` is how many earlier jobs it is the mean of; 0 means an assumption, which is not split.
    """

    total_s: float
    steps_s: Mapping[str, float] = field(default_factory=dict)
    jobs: int = 0


@dataclass(frozen=True)
class RunningJob:
    """A job that runs: the seconds spent in each step that has ended, and for how long it has been in `step`."""

    sweep: str
    expected: Expected
    spent_s: Mapping[str, float]
    step: str
    step_s: float

    @property
    def left_s(self) -> float:
        """Seconds until its end. Steps follow each other: one left early or late leaves those after it untouched."""
        if not self.expected.jobs:
            return max(self.expected.total_s - sum(self.spent_s.values()) - self.step_s, 0.0)
        to_come_s = sum(
            whole_s for name, whole_s in self.expected.steps_s.items() if name not in {*self.spent_s, self.step}
        )
        now_s = self.expected.steps_s.get(self.step, 0.0) - self.spent_s.get(self.step, 0.0) - self.step_s
        return to_come_s + max(now_s, 0.0)


@dataclass(frozen=True)
class WaitingJobs:
    """Queued jobs of one sweep and one kind on one host. `waits_for` says why none of them may start now; None = they
    may."""

    sweep: str
    jobs: int
    expected: Expected
    waits_for: str | None = None


@dataclass(frozen=True)
class Eta:
    """When a host will be through with a sweep, in seconds from now; None where nobody can say: it waits for something.

    `measured` is how many earlier jobs the estimate rests on at least, over everything that runs until then; 0 says
    that a part of it is the plan's assumption.
    """

    left_s: float | None
    measured: int
    waits_for: str | None = None


GENERATING = frozenset({"warm up", "measure", "coding"})
"""Steps whose time is the server's generating: those that speculation shortens."""

SPECULATION_GAIN = 1.8
"""How much longer a baseline's generating steps take than those of a speculating cell, as long as only one kind was
measured. 1.66 to 1.96 over all points of the cost models of both boxes. A sweep's first cell is mostly the baseline:
without this the rest would be expected to take up to half as long again."""


def expected(
    same: Sequence[Mapping[str, float]], other: Sequence[Mapping[str, float]], baseline: bool, assumed_s: float
) -> Expected:
    """What a job is expected to take, from earlier jobs (seconds by step) of the `same` kind: the mean.

    There are two kinds, the `baseline` and what speculates. Where only the `other` kind was measured, its mean with the
    generating steps longer or shorter by SPECULATION_GAIN; where nothing was, `assumed_s`.
    """
    earlier = same or other
    if not earlier:
        return Expected(assumed_s)
    factor = 1.0 if same else SPECULATION_GAIN if baseline else 1 / SPECULATION_GAIN
    names = dict.fromkeys(name for steps in earlier for name in steps)
    steps_s = {
        name: fmean(steps.get(name, 0.0) for steps in earlier) * (factor if name in GENERATING else 1.0)
        for name in names
    }
    return Expected(sum(steps_s.values()), steps_s, len(earlier))


def step_times(phases: Sequence[PhaseRecord]) -> dict[str, float]:
    """Seconds by step. A phase that lies inside another one, as a server's own do inside `ready`, counts there only."""
    times: dict[str, float] = {}
    for phase in phases:
        if not any(_inside(phase, other) for other in phases if other is not phase):
            times[phase.name] = times.get(phase.name, 0.0) + phase.duration_s
    return times


def outlook(running: RunningJob | None, waiting: Sequence[WaitingJobs]) -> dict[str, Eta]:
    """For each sweep of one host, when the host will be through with it; `waiting` in the order of the queue.

    What may not start now is passed over, as the dispatcher does.
    """
    etas: dict[str, Eta] = {}
    after_s, measured = 0.0, None
    if running is not None:
        after_s, measured = running.left_s, running.expected.jobs
        etas[running.sweep] = Eta(after_s, measured)
    for jobs in waiting:
        if jobs.waits_for is not None:
            etas[jobs.sweep] = Eta(None, 0, jobs.waits_for)
            continue
        after_s += jobs.jobs * jobs.expected.total_s
        measured = jobs.expected.jobs if measured is None else min(measured, jobs.expected.jobs)
        etas[jobs.sweep] = Eta(after_s, measured)
    return etas


def last(etas: Sequence[Eta]) -> Eta:
    """When all of several hosts are through; with one that waits, nobody can say.

    Raises:
        ValueError: there is none.
    """
    if not etas:
        raise ValueError("no host, no end")
    for eta in etas:
        if eta.left_s is None:
            return eta
    return Eta(max(eta.left_s or 0.0 for eta in etas), min(eta.measured for eta in etas))


def _inside(phase: PhaseRecord, other: PhaseRecord) -> bool:
    """By the middle: a server's own clock tells whole seconds, so that its edges may stick out."""
    middle_s = (phase.started_at - other.started_at).total_seconds() + phase.duration_s / 2
    return phase.duration_s < other.duration_s and 0 <= middle_s <= other.duration_s
