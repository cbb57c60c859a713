"""What a deployment says: each step of each box as it happens, and all of it at the end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    """What became of a step."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    PASSED = "passed"
    """Something was looked at, and is as it should be."""
    FAILED = "failed"


@dataclass(frozen=True)
class Step:
    """One step of one box."""

    name: str
    outcome: Outcome
    text: str
    took_s: float


@dataclass
class Story:
    """One box's deployment so far. `problem` is why it failed; None = it did not."""

    name: str
    place: str = ""
    steps: list[Step] = field(default_factory=list)
    problem: str | None = None
    result: str = ""
    """How it stands at the end, in a few words."""
    took_s: float = 0.0

    @property
    def done(self) -> bool:
        return self.problem is None


Say = Callable[[str, str, str, str], None]
"""Gets a box's name, a step, its outcome (empty while it goes on) and what there is to say."""


class Narrator:
    """Tells one box's story, and keeps it. Used by that box's thread alone; `say` must be ready for several."""

    def __init__(self, name: str, say: Say) -> None:
        self.story = Story(name)
        self._say = say

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[StepInHand]:
        """One step: the block says how it ended; an exception ends it as failed, and goes on."""
        began_s = time.monotonic()
        hand = StepInHand(lambda text: self._say(self.story.name, name, "", text))
        try:
            yield hand
        except BaseException as error:
            self._end(name, Outcome.FAILED, (str(error) or type(error).__name__).splitlines()[0], began_s)
            raise
        self._end(name, hand.outcome, hand.text, began_s)

    def _end(self, name: str, outcome: Outcome, text: str, began_s: float) -> None:
        step = Step(name, outcome, text, time.monotonic() - began_s)
        self.story.steps.append(step)
        self._say(self.story.name, name, outcome.value, f"{text} ({step.took_s:.1f} s)")


@dataclass
class StepInHand:
    """How a step stands. It begins as unchanged."""

    tell: Callable[[str], None]
    outcome: Outcome = Outcome.UNCHANGED
    text: str = ""

    def ended(self, outcome: Outcome, text: str) -> None:
        self.outcome, self.text = outcome, text

    def changed(self, was_changed: bool, text: str) -> None:
        """`was_changed` False: it was so already."""
        self.ended(Outcome.CHANGED if was_changed else Outcome.UNCHANGED, text)


class OneLineAtATime:
    """Lets several boxes' threads print."""

    def __init__(self, write: Callable[[str], None], width: int) -> None:
        """`width`: of the longest box's name."""
        self._write = write
        self._width = width
        self._lock = threading.Lock()

    def __call__(self, box: str, step: str, outcome: str, text: str) -> None:
        with self._lock:
            self._write(f"{time.strftime('%H:%M:%S')}  {box:<{self._width}}  {step:<13}  {outcome or '...':<9}  {text}")
