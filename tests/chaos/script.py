"""What the clients will do, dealt from the seed: a list of steps, the same for the same arguments."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Submit:
    """A sweep of one cell a budget on each of the hosts; it starts when every job of `after` has ended."""

    name: str
    budgets: tuple[int, ...]
    hosts: tuple[str, ...]
    priority: int
    after: str | None = None

    @property
    def jobs(self) -> int:
        return len(self.budgets) * len(self.hosts)


@dataclass(frozen=True)
class CancelJob:
    """One job of a sweep that was submitted before, by its place in it."""

    sweep: str
    place: int


@dataclass(frozen=True)
class CancelSweep:
    sweep: str


@dataclass(frozen=True)
class Retry:
    """Whatever of the sweep has failed or was cancelled."""

    sweep: str


@dataclass(frozen=True)
class Pause:
    sweep: str


@dataclass(frozen=True)
class Resume:
    sweep: str


@dataclass(frozen=True)
class Hold:
    """The host takes no more jobs; `now` stops the one that runs."""

    host: str
    now: bool


@dataclass(frozen=True)
class Release:
    host: str


Step = Submit | CancelJob | CancelSweep | Retry | Pause | Resume | Hold | Release


@dataclass(frozen=True)
class Timed:
    """A step, `pause_s` after the one before it."""

    pause_s: float
    step: Step


def script(seed: int, jobs: int, hosts: Sequence[str]) -> list[Timed]:
    """Submissions of `jobs` jobs in all, and between them what people do to their sweeps and to the hosts. Whatever is
    paused or held goes on a few steps later."""
    chance = random.Random(f"clients {seed}")
    steps: list[Timed] = []
    shut: list[Resume | Release] = []
    names: list[str] = []
    left = jobs
    while left:
        submit = _submission(chance, names, left, hosts)
        steps.append(Timed(chance.uniform(0.0, 3.0), submit))
        names.append(submit.name)
        left -= submit.jobs
        steps += [Timed(chance.uniform(0.0, 2.0), opened) for opened in shut]
        shut.clear()
        step = _interference(chance, names, hosts)
        if step is None:
            continue
        steps.append(Timed(chance.uniform(0.0, 3.0), step))
        if isinstance(step, Pause):
            shut.append(Resume(step.sweep))
        if isinstance(step, Hold):
            shut.append(Release(step.host))
    return steps + [Timed(1.0, opened) for opened in shut]


def _submission(chance: random.Random, names: Sequence[str], left: int, hosts: Sequence[str]) -> Submit:
    width = min(chance.randint(1, len(hosts)), left)
    cells = min(chance.randint(1, 5), left // width)
    return Submit(
        name=f"sweep-{len(names) + 1}",
        budgets=tuple(sorted(chance.sample(range(4, 33), cells))),
        hosts=tuple(chance.sample(list(hosts), width)),
        priority=chance.choice((0, 0, 0, 5)),
        after=names[-1] if names and chance.random() < 0.2 else None,
    )


def _interference(chance: random.Random, names: Sequence[str], hosts: Sequence[str]) -> Step | None:
    sweep = chance.choice(names[-4:])
    kind = chance.random()
    if kind < 0.15:
        return CancelJob(sweep, chance.randrange(8))
    if kind < 0.20:
        return CancelSweep(sweep)
    if kind < 0.40:
        return Retry(sweep)
    if kind < 0.60:
        return Pause(sweep)
    if kind < 0.85:
        return Hold(chance.choice(list(hosts)), now=chance.random() < 0.5)
    return None
