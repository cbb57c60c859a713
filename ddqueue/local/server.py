"""One embedded server: a recipe that knows the program, and the process that runs it now."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from ddqueue.errors import DdqueueError
from ddqueue.local import locks
from ddqueue.local.child import Child, Program, spawn, start_until_ready

_log = logging.getLogger(__name__)
_LEFTOVER_WAIT_S = 30.0


class Recipe(Protocol):
    """How one kind of server is prepared, started and asked whether it serves."""

    name: str
    lock: Path
    """Held by every process of this server; `prepare` and `program` are called while it is ours."""

    @property
    def url(self) -> str:
        """Where clients connect, password included; settled by the last call of `program`."""
        ...

    def prepare(self, lock: int) -> None:
        """Make what the server needs before its first start; nothing when it is there."""
        ...

    def program(self, lock: int) -> Program:
        """The process to start, on a port that is free now; `lock` is the descriptor for it to inherit."""
        ...

    def is_ready(self, child: Child) -> bool:
        """Whether exactly this process serves: another server on the same port does not count."""
        ...


class Server:
    """Starts a recipe, and stops what it started."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.started_at_s = 0.0
        """Monotonic time of the last start."""
        self._child: Child | None = None

    @property
    def child(self) -> Child:
        """The process of the last successful start."""
        if self._child is None:
            raise RuntimeError(f"{self.recipe.name} has not been started")
        return self._child

    def start(self) -> None:
        """Return when it serves.

        Raises:
            DdqueueError: it cannot be prepared or started; the text has the end of its log.
        """
        _log.info("starting %s", self.recipe.name)
        with self._alone() as lock:
            self.recipe.prepare(lock)
        self._child = start_until_ready(self._attempt, self.recipe.is_ready)
        self.started_at_s = time.monotonic()
        _log.info("%s is ready (pid %d)", self.recipe.name, self._child.pid)

    def is_running(self) -> bool:
        return self._child is not None and self._child.exit_code() is None

    def ask_to_stop(self) -> None:
        if self._child is not None:
            self._child.ask_to_stop()

    def wait_stopped(self, patience_s: float = 30.0) -> None:
        if self._child is not None:
            self._child.wait_stopped(patience_s)
            _log.info("%s has stopped", self.recipe.name)

    def _attempt(self) -> Child:
        with self._alone() as lock:
            return spawn(self.recipe.program(lock))

    @contextmanager
    def _alone(self) -> Iterator[int]:
        """Wait until no process of an earlier start is left: it would still use the data, and the port."""
        try:
            with locks.holding(self.recipe.lock, _LEFTOVER_WAIT_S) as lock:
                yield lock
        except locks.Held:
            raise DdqueueError(
                f"{self.recipe.name}: processes of an earlier start were still there after {_LEFTOVER_WAIT_S:.0f} s\n"
                f"  see who they are with: fuser -v {self.recipe.lock}"
            ) from None
