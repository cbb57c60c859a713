"""The steps of one attempt: each is told to whoever watches, timed, and its time stored."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from ddqueue.domain.queueing import Claim, PhaseRecord
from ddqueue.ports import AttemptStore, Progress

log = logging.getLogger(__name__)

Value = TypeVar("Value")


class Steps:
    """Runs steps, one after the other."""

    def __init__(self, store: AttemptStore, progress: Progress) -> None:
        self._store = store
        self._progress = progress
        self._told = ""

    def timed(self, claim: Claim, name: str, step: Callable[[], Value], detail: str = "") -> Value:
        """Run a step and store its time, also when it fails; the step's own error is never hidden by a store's."""
        self.tell(name, detail)
        started_at, started_s = datetime.now(UTC), time.monotonic()
        try:
            value = step()
        except BaseException:
            try:
                self._store.record_phase(claim, PhaseRecord(name, started_at, time.monotonic() - started_s, "failed"))
            except Exception:
                log.exception("the time of %s could not be stored", name)
            raise
        self._store.record_phase(claim, PhaseRecord(name, started_at, time.monotonic() - started_s, detail))
        return value

    def doing(self) -> str:
        """What the attempt does now, in words."""
        return self._told

    def tell(self, phase: str, text: str) -> None:
        """Tell whoever watches, once a change."""
        told = f"{phase}: {text}" if text else phase
        if told != self._told:
            self._told = told
            self._progress.tell(phase, text)
