"""Why an attempt should end before its work does: one flag, set by whoever notices first."""

from __future__ import annotations

import threading
import time
from enum import StrEnum

from ddqueue.errors import DdqueueError


class StopReason(StrEnum):
    """Who wants the attempt to end."""

    PERSON = "cancelled by a person"
    HOLD = "a person wants the host"
    HOURS = "the hours in which its host may be borrowed are over"
    WORKER = "its worker was told to stop, or is gone"
    LEASE = "another attempt owns the job now"
    LIMIT = "the attempt took longer than it may"


class AttemptStopped(DdqueueError):
    """Raised inside the attempt at the next check after somebody asked it to stop."""

    def __init__(self, reason: StopReason) -> None:
        self.reason = reason
        super().__init__(str(reason))


class StopSignal:
    """Set from signal handlers and threads; checked by the attempt. The first reason stays, save that a lost lease
    overrides: then nothing may be written any more."""

    def __init__(self, limit_s: float) -> None:
        self._deadline = time.monotonic() + limit_s
        self._reason: StopReason | None = None
        self._set = threading.Event()

    @property
    def reason(self) -> StopReason | None:
        if self._reason is None and time.monotonic() > self._deadline:
            return StopReason.LIMIT
        return self._reason

    def ask(self, reason: StopReason) -> None:
        if self._reason is None or reason is StopReason.LEASE:
            self._reason = reason
        self._set.set()

    def check(self) -> None:
        """Raises AttemptStopped once somebody has asked."""
        reason = self.reason
        if reason is not None:
            raise AttemptStopped(reason)

    def wait(self, seconds: float) -> bool:
        """Sleep, but wake when somebody asks; True when somebody has."""
        return self._set.wait(seconds)
