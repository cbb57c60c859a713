"""Asked and simulated numbers of the PCIe box side by side: `python -m ddqueue.sim.calibration`.

Runs the scheduler in virtual time, so that a sweep of minutes takes seconds. `--fit` prints the constants of the cost
model that make the largest relative error over all throughputs as small as it gets.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from ddqueue.domain.sweep import Point
from ddqueue.sim.cost import PCIE, BoxCosts, expert_share
from ddqueue.sim.drafter import Drafter
from ddqueue.sim.scheduler import Generation, Scheduler, Step, StepKind

TRAINED_BLOCK_SIZE = 8
OUTPUT_TOKENS = 256
ACCEPTANCE_TOLERANCE = 0.15
THROUGHPUT_TOLERANCE = 0.15
_REQUESTS_AT_LEAST = 48
_PAST_ANY_RUN = 10**9

POINTS = tuple(
    Point(concurrency, context, OUTPUT_TOKENS)
    for concurrency, context in ((1, 60), (1, 1024), (1, 4096), (32, 60), (32, 4096))
)


@dataclass(frozen=True)
class Target:
    """One row of the hand-made sweep: a tree configuration at block 8, what it accepted, and output tok/s by point.

    A throughput is a range (low, high) where the sweep saw different values.
    """

    budget: int
    topk: int
    window: int | None
    acceptance_length: float
    throughputs_tok_s: tuple[tuple[float, float], ...]

    @property
    def label(self) -> str:
        return f"b{self.budget} t{self.topk} {'none' if self.window is None else f'w{self.window}'}"


def _single(*values: float) -> tuple[tuple[float, float], ...]:
    return tuple((value, value) for value in values)


TARGETS = (
    Target(8, 4, 2048, 4.51, ((145.0, 170.0), *_single(109.8, 44.2, 791.0, 460.0))),
    Target(8, 4, None, 4.51, _single(145.3, 109.2, 45.5, 842.6, 456.8)),
    Target(4, 4, 2048, 3.65, _single(145.1, 86.0, 35.7, 897.1, 440.0)),
    Target(12, 6, 2048, 4.81, _single(147.5, 106.2, 47.6, 696.8, 421.0)),
    Target(16, 4, 2048, 4.91, _single(151.5, 99.0, 45.0, 611.0, 397.0)),
)
"""The first row's acceptance was written "about 4.5"."""


@dataclass(frozen=True)
class Run:
    """What one point of one configuration gave: every step with its mean context, the total time, the acceptance."""

    steps: tuple[tuple[Step, float], ...]
    duration_s: float
    output_tokens: int
    acceptance_length: float | None

    @property
    def throughput_tok_s(self) -> float:
        return self.output_tokens / self.duration_s


@dataclass(frozen=True)
class Comparison:
    """One number asked and simulated; `error` is relative to the nearest end of the asked range, 0 inside it."""

    label: str
    low: float
    high: float
    simulated: float
    error: float
    tolerance: float

    @property
    def within(self) -> bool:
        return abs(self.error) <= self.tolerance


def simulate(costs: BoxCosts, drafter: Drafter | None, window: int | None, point: Point) -> Run:
    """Run waves of `point.concurrency` requests, each wave to its end, until there are some 48 requests."""
    steps: list[tuple[Step, float]] = []
    now_s, correct, verifies, tokens = 0.0, 0, 0, 0
    for wave in range(-(-_REQUESTS_AT_LEAST // point.concurrency)):
        scheduler = Scheduler(costs, drafter, point.concurrency, _PAST_ANY_RUN, draft_window=window)
        wave_requests = [
            Generation(f"{wave}-{index}", point.context, point.output, Random(f"{point.label}/{wave}/{index}"))
            for index in range(point.concurrency)
        ]
        for request in wave_requests:
            scheduler.submit(request)
        while (step := scheduler.begin()) is not None:
            mean_context = sum(one.context_tokens for one in step.generations) / len(step.generations)
            now_s += step.duration_s
            scheduler.finish(step, now_s)
            steps.append((step, mean_context))
        correct += sum(request.correct_drafts for request in wave_requests)
        verifies += sum(request.verifies for request in wave_requests)
        tokens += sum(request.output_tokens for request in wave_requests)
    return Run(tuple(steps), now_s, tokens, 1 + correct / verifies if verifies else None)


def drafter_of(target: Target) -> Drafter:
    return Drafter(TRAINED_BLOCK_SIZE, TRAINED_BLOCK_SIZE, target.budget, target.topk)


def compare(costs: BoxCosts = PCIE) -> list[Comparison]:
    """Every acceptance length and throughput of the sweep against what the simulator gives."""
    found: list[Comparison] = []
    for target in TARGETS:
        runs = [simulate(costs, drafter_of(target), target.window, point) for point in POINTS]
        acceptance = sum(run.acceptance_length or 0.0 for run in runs) / len(runs)
        asked = target.acceptance_length
        error = acceptance - asked
        found.append(Comparison(f"{target.label} acceptance", asked, asked, acceptance, error, ACCEPTANCE_TOLERANCE))
        for point, (low, high), run in zip(POINTS, target.throughputs_tok_s, runs, strict=True):
            simulated = run.throughput_tok_s
            error = simulated / min(max(simulated, low), high) - 1
            # A range is itself the tolerance.
            tolerance = THROUGHPUT_TOLERANCE if low == high else 0.0
            found.append(Comparison(f"{target.label} {point.label} tok/s", low, high, simulated, error, tolerance))
    return found


def fit(start: BoxCosts = PCIE) -> BoxCosts:
    """The constants with the smallest largest relative error; the drafter's and the prefill's stay as they are."""
    from scipy.optimize import linprog  # the server never needs it, and it takes half a second to import

    rows: list[list[float]] = []
    bounds: list[float] = []
    for target in TARGETS:
        for point, (low, high) in zip(POINTS, target.throughputs_tok_s, strict=True):
            run = simulate(start, drafter_of(target), target.window, point)
            asked_ms = run.output_tokens / ((low + high) / 2) * 1000.0
            features, given_ms = [0.0] * 5, 0.0
            for step, context in run.steps:
                if step.kind is StepKind.PREFILL:
                    given_ms += step.duration_s * 1000.0
                    continue
                count, context_k = len(step.generations), context / 1000.0
                tokens = count * (target.budget + 1)
                wide = (1.0, expert_share(tokens), float(tokens), context_k, count * context_k)
                features = [total + part for total, part in zip(features, wide, strict=True)]
                seen_k = context_k if target.window is None else min(context_k, target.window / 1000.0)
                given_ms += start.draft_ms + start.draft_kv_ms_per_k * seen_k
            relative = [feature / asked_ms for feature in features]
            remaining = 1.0 - given_ms / asked_ms
            rows += [[*relative, -1.0], [*(-one for one in relative), -1.0]]
            bounds += [remaining, -remaining]
    solution = linprog([0.0] * 5 + [1.0], A_ub=rows, b_ub=bounds).x
    fixed, experts, token, kv_step, kv_request, _largest_error = (float(value) for value in solution)
    return replace(
        start,
        fixed_ms=fixed,
        experts_ms=experts,
        token_ms=token,
        kv_step_ms_per_k=kv_step,
        kv_request_ms_per_k=kv_request,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the comparison; 0 when everything is within tolerance, else 1."""
    parser = argparse.ArgumentParser(prog="python -m ddqueue.sim.calibration", description=__doc__)
    parser.add_argument("--fit", action="store_true", help="fit the constants anew and compare with those")
    costs = fit() if parser.parse_args(arguments).fit else PCIE
    print(f"{costs.name}: {costs}\n")
    print(f"{'what':34}{'asked':>16}{'simulated':>12}{'error':>9}")
    comparisons = compare(costs)
    for one in comparisons:
        asked = f"{one.low:g}" if one.low == one.high else f"{one.low:g} to {one.high:g}"
        error = f"{one.error:+.2f}" if one.label.endswith("acceptance") else f"{one.error:+.1%}"
        mark = "" if one.within else "  out of tolerance"
        print(f"{one.label:34}{asked:>16}{one.simulated:>12.2f}{error:>9}{mark}")
    failed = sum(not one.within for one in comparisons)
    print(f"\n{len(comparisons) - failed} of {len(comparisons)} within tolerance")
    print("The speed without speculation and the whole NVLink box are assumptions, not measured.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
