"""Continuous batching as a pure step function: no clock, no sleeping. Real time and calibration both drive it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from ddqueue.sim.cost import BoxCosts
from ddqueue.sim.drafter import Drafter


class StepKind(StrEnum):
    """What the GPUs do in one step."""

    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(eq=False)
class Generation:
    """One request's way through the engine. Times are seconds of whichever clock drives the scheduler."""

    rid: str
    prompt_tokens: int
    output_limit: int
    random: Random
    cached_tokens: int = 0
    output_tokens: int = 0
    verifies: int = 0
    correct_drafts: int = 0
    histogram: list[int] = field(default_factory=list)
    first_token_s: float | None = None
    finished_s: float | None = None
    aborted: bool = False

    @property
    def finished(self) -> bool:
        return self.aborted or self.output_tokens >= self.output_limit

    @property
    def context_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True)
class Step:
    """One forward pass: who takes part, how long it takes, and what it computes."""

    kind: StepKind
    generations: tuple[Generation, ...]
    duration_s: float
    new_tokens: int
    cached_tokens: int


class Scheduler:
    """Admits waiting requests by prefill, first come first served, then decodes everyone running, step by step.

    Call `begin`, let the step's duration pass, call `finish`. `drafter` none means one token per step. `noise` is the
    relative standard deviation of a step's duration.
    """

    def __init__(
        self,
        costs: BoxCosts,
        drafter: Drafter | None,
        max_running: int,
        max_total_tokens: int,
        chunked_prefill_size: int = 8192,
        draft_window: int | None = None,
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._costs = costs
        self._drafter = drafter
        self._max_running = max_running
        self.max_total_tokens = max_total_tokens
        self._chunk_tokens = chunked_prefill_size
        self._draft_window = draft_window
        self._noise = noise
        self._random = Random(seed)
        self.waiting: deque[Generation] = deque()
        self.running: list[Generation] = []

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.running

    @property
    def used_tokens(self) -> int:
        """KV cache slots in use."""
        return sum(generation.context_tokens for generation in self.running)

    def submit(self, generation: Generation) -> None:
        self.waiting.append(generation)

    def abort(self, generation: Generation) -> None:
        """Take the request out, wherever it is; one that has finished stays as it is."""
        if generation.finished:
            return
        generation.aborted = True
        if generation in self.waiting:
            self.waiting.remove(generation)
        if generation in self.running:
            self.running.remove(generation)

    def begin(self) -> Step | None:
        """The next step, or None when there is nothing to do."""
        admitted = self._admit()
        if admitted:
            new_tokens = sum(one.prompt_tokens - one.cached_tokens for one in admitted)
            cached_tokens = sum(one.cached_tokens for one in admitted)
            return Step(
                StepKind.PREFILL,
                admitted,
                self._duration_s(self._costs.prefill_ms(new_tokens)),
                new_tokens,
                cached_tokens,
            )
        if not self.running:
            return None
        batch = tuple(self.running)
        step_ms = self._costs.step_ms(
            len(batch),
            self._drafter.verify_tokens if self._drafter else 1,
            sum(one.context_tokens for one in batch) / len(batch),
            self._draft_window,
        )
        return Step(StepKind.DECODE, batch, self._duration_s(step_ms), 0, 0)

    def finish(self, step: Step, now_s: float) -> list[Generation]:
        """Account for a step that has ended; returns the requests that have new tokens."""
        progressed = [one for one in step.generations if not one.aborted]
        for generation in progressed:
            if step.kind is StepKind.PREFILL:
                generation.output_tokens = 1
                generation.first_token_s = now_s
                self.running.append(generation)
            else:
                self._decode(generation)
            if generation.finished:
                generation.finished_s = now_s
                self.running.remove(generation)
        return progressed

    def _decode(self, generation: Generation) -> None:
        correct = 0
        if self._drafter is not None:
            correct = self._drafter.accepted(generation.random)
            generation.verifies += 1
            generation.correct_drafts += correct
            generation.histogram += [0] * (correct + 1 - len(generation.histogram))
            generation.histogram[correct] += 1
        # The real engine counts the drafts of the last verify in full, though the answer is cut at its limit.
        generation.output_tokens = min(generation.output_tokens + correct + 1, generation.output_limit)

    def _admit(self) -> tuple[Generation, ...]:
        admitted: list[Generation] = []
        room = self.max_total_tokens - sum(one.prompt_tokens + one.output_limit for one in self.running)
        chunk = self._chunk_tokens
        while self.waiting and chunk > 0 and len(self.running) + len(admitted) < self._max_running:
            needed = self.waiting[0].prompt_tokens + self.waiting[0].output_limit
            # A request larger than the whole cache runs alone rather than waiting for ever.
            if needed > room and (self.running or admitted):
                break
            generation = self.waiting.popleft()
            room -= needed
            chunk -= generation.prompt_tokens - generation.cached_tokens
            admitted.append(generation)
        return tuple(admitted)

    def _duration_s(self, mean_ms: float) -> float:
        factor = self._random.gauss(1.0, self._noise) if self._noise else 1.0
        return mean_ms / 1000.0 * max(factor, 0.1)
