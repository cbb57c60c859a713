"""What leaving repeats out, and giving dominated cells up, saves of a sweep's time; and whether the same cells win.

Forty trees and a baseline on two simulated boxes, through the rules of the product itself (`enough`, `dominated`,
`middle_first`), in simulated time: a start, a repeat and the coding checks take as long as the cost model says, so that
many sweeps take seconds. A start differs from the next by START_NOISE, a repeat by REPEAT_NOISE, and one that
speculates by ACCEPTANCE_NOISE over the root of its requests too: how many drafts are right differs by the prompt.

After the first cell, the baseline, the rest is estimated as `status` does it (`eta.expected`).

Every policy sees the same noise. The exit code is 1 when a policy loses a winner: when what it calls fastest is truly
slower than the truly fastest by more than LOSS, more often than measuring everything whole does.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from statistics import fmean, median

import click

from ddqueue.domain.configuration import Cell, Speculation
from ddqueue.domain.dominance import Rival, dominated
from ddqueue.domain.eta import expected
from ddqueue.domain.promising import middle_first
from ddqueue.domain.statistics import enough
from ddqueue.domain.sweep import Point, Repeats
from ddqueue.sim.calibration import simulate
from ddqueue.sim.cost import box_named
from ddqueue.sim.drafter import Drafter

BOXES = ("pcie", "nvlink")
BLOCK = 8
POINTS = tuple(Point(concurrency, context, 256) for concurrency, context in ((1, 60), (1, 4096), (32, 60), (32, 4096)))
BUDGETS = (1, 2, 3, 4, 6, 8, 10, 12, 16, 24)
TOPKS = (2, 4)
WINDOWS = (2048, None)
START_NOISE, REPEAT_NOISE = 0.01, 0.01
ACCEPTANCE_NOISE = 0.05
"""Of one request of 256 tokens: 4.4 to 5.4% in the simulator's scheduler, for trees of 4 and 12 nodes on both boxes."""
CODING_TOKENS = 3000
"""Of one answer with its reasoning; five problems are asked alone, and 35 answers are given under C=32."""
LOSS = 0.02
WHOLE, STOPPING = Repeats(10, 10), Repeats(3, 10, 0.03)

Truth = Mapping[Point, float]


@dataclass(frozen=True)
class Policy:
    name: str
    repeats: Repeats
    prune: bool = False
    middle_first: bool = False


POLICIES = (
    Policy("ten repeats of everything", WHOLE),
    Policy("until within 3%", STOPPING),
    Policy("... and dominated cells given up", STOPPING, prune=True),
    Policy("... the middle of the axes first", STOPPING, prune=True, middle_first=True),
)


def cells() -> list[Cell]:
    """The baseline and the trees, as a grid lists them."""
    trees = [Speculation(BLOCK, *settings) for settings in product(BUDGETS, TOPKS, WINDOWS)]
    return [Cell("kimi-k2.6", "sim"), *(Cell("kimi-k2.6", "sim", tree) for tree in trees)]


def truths(box: str, asked: Sequence[Cell], points: Sequence[Point] = POINTS) -> list[Truth]:
    """Output tokens/s of each cell at each point, as the cost model has it."""
    found: list[Truth] = []
    for cell in asked:
        tree = cell.speculation
        drafter = None if tree is None else Drafter(BLOCK, BLOCK, tree.budget, tree.topk or 1)
        window = None if tree is None else tree.window
        found.append({point: simulate(box_named(box), drafter, window, point).throughput_tok_s for point in points})
    return found


@dataclass(frozen=True)
class Outcome:
    """`losses`: by what share each point's winner is truly slower than the fastest. `eta_error`: by what share of the
    truth too much was said to be left after the first cell."""

    spent_s: float
    given_up: int
    losses: Sequence[float]
    eta_error: float


@dataclass
class Night:
    """One sweep on one box. Noise belongs to (cell, point, repeat), so that every policy meets the same."""

    asked: Sequence[Cell]
    truth: Sequence[Truth]
    seed: int
    start_s: float
    coding: bool

    def run(self, policy: Policy) -> Outcome:
        order = middle_first(self.asked) if policy.middle_first else range(len(self.asked))
        spent_s: list[float] = []
        given_up = 0
        whole: list[Rival] = []
        for place in order:
            seconds, values, lost = self._measure(place, policy, whole)
            spent_s.append(seconds)
            given_up += lost
            if not lost and not self.asked[place].is_baseline:
                whole.append(Rival(place, str(place), values))
        losses = []
        for point in POINTS:
            fastest = max(truth[point] for truth in self.truth)
            winner = max(whole, key=lambda one, point=point: fmean(one.throughputs[point]))  # type: ignore[misc]
            losses.append(1 - self.truth[winner.job_id][point] / fastest)
        steps_s = {"ready": self.start_s, "measure": spent_s[0] - self.start_s}
        left_s = expected([], [steps_s], False, 0.0).total_s * len(spent_s[1:])
        return Outcome(sum(spent_s), given_up, losses, left_s / sum(spent_s[1:]) - 1)

    def _measure(
        self, place: int, policy: Policy, rivals: Sequence[Rival]
    ) -> tuple[float, dict[Point, list[float]], bool]:
        truth, chance = self.truth[place], Random(f"{self.seed}/{place}")
        start = 1 + chance.gauss(0, START_NOISE)
        luck = 0.0 if self.asked[place].is_baseline else ACCEPTANCE_NOISE
        noise = {
            (point, repeat): chance.gauss(0, math.hypot(REPEAT_NOISE, luck / math.sqrt(point.concurrency)))
            for repeat in range(10)
            for point in POINTS
        }
        seconds = self.start_s + sum(repeat_s(point, truth) for point in POINTS)  # the warm-ups
        values: dict[Point, list[float]] = {point: [] for point in POINTS}
        for repeat in range(policy.repeats.maximum):
            for point in POINTS:
                if not enough(values[point], policy.repeats):
                    values[point].append(truth[point] * start * (1 + noise[point, repeat]))
                    seconds += repeat_s(point, truth)
            if all(enough(one, policy.repeats) for one in values.values()):
                break
            if policy.prune and not self.asked[place].is_baseline and dominated(values, rivals) is not None:
                return seconds, values, True
        if self.coding:
            alone, batch = POINTS[0], POINTS[2]
            seconds += CODING_TOKENS * (5 / truth[alone] + 35 / truth[batch])
        return seconds, values, False


def repeat_s(point: Point, truth: Truth) -> float:
    return point.concurrency * point.output / truth[point]


@click.command()
@click.option("--sweeps", default=20, show_default=True, help="Sweeps on each box, each with noise of its own.")
def main(sweeps: int) -> None:
    asked = cells()
    models = {box: truths(box, asked) for box in BOXES}
    click.echo(
        f"{len(asked) - 1} trees and a baseline on {len(BOXES)} boxes, {sweeps} sweeps of each; times are simulated\n"
    )
    header = (
        f"{'policy':36}{'hours':>7}{'of whole':>10}{'given up':>10}{'fastest found':>15}{'worst loss':>12}"
        f"{'ETA off by':>18}"
    )
    worse = False
    for start_s, coding in ((480.0, True), (480.0, False), (120.0, True), (120.0, False)):
        click.echo(f"a start takes {start_s:.0f} s, coding checks {'asked' if coding else 'not asked'}")
        click.echo(header)
        whole_s, whole_found = 0.0, 1.0
        for policy in POLICIES:
            nights = [
                Night(asked, models[box], seed, start_s, coding).run(policy) for box in BOXES for seed in range(sweeps)
            ]
            spent_s = median(night.spent_s for night in nights) * len(BOXES)
            losses = [loss for night in nights for loss in night.losses]
            found = fmean(loss <= LOSS for loss in losses)
            if policy is POLICIES[0]:
                whole_s, whole_found = spent_s, found
            worse |= found < whole_found - 0.01
            given_up = fmean(night.given_up for night in nights)
            errors = sorted(night.eta_error for night in nights)
            click.echo(
                f"{policy.name:36}{spent_s / 3600:7.2f}{spent_s / whole_s:10.1%}{given_up:10.1f}{found:15.1%}"
                f"{max(losses):12.2%}{f'{errors[0]:+.0%} to {errors[-1]:+.0%}':>18}"
            )
        click.echo()
    click.echo(
        f"fastest found: the winner is truly within {LOSS:.0%} of the best there is, over boxes and points\n"
        "ETA off by: what the first cell makes the rest look like, from the least to the most over all sweeps"
    )
    sys.exit(int(worse))


if __name__ == "__main__":
    main()
