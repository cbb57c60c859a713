"""Keeping the lease alive while the attempt works, and hearing from the database that it should stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from ddqueue.domain.queueing import Claim, Lease
from ddqueue.errors import NotReachable
from ddqueue.ports import AttemptStore
from ddqueue.services.stopping import StopReason, StopSignal

_EVERY_S = 1.0
"""Often enough for a person who watches; the lease itself needs it less often."""


class Heartbeat:
    """A thread between claim and finish. A database that is away stops nothing: the host's lock still holds, and an
    expired lease alone never permits another run. `activity` says what the attempt does now."""

    def __init__(
        self, store: AttemptStore, claim: Claim, lease_ttl_s: float, stop: StopSignal, activity: Callable[[], str]
    ) -> None:
        self._store = store
        self._claim = claim
        self._lease_ttl_s = lease_ttl_s
        self._stop = stop
        self._activity = activity
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(timeout=self._lease_ttl_s)

    def _run(self) -> None:
        while not self._over.wait(min(_EVERY_S, self._lease_ttl_s / 5)):
            try:
                lease = self._store.heartbeat(self._claim, self._lease_ttl_s, self._activity())
            except NotReachable:
                continue
            if self._over.is_set():
                return
            if lease is Lease.CANCEL:
                self._stop.ask(StopReason.PERSON)
            elif lease is Lease.YIELD:
                self._stop.ask(StopReason.HOLD)
            elif lease is Lease.LOST:
                self._stop.ask(StopReason.LEASE)
                return
