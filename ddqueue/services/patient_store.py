"""An attempt's store that outlives a database restart: it keeps trying while the database cannot be reached."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ddqueue.domain.failures import Failure
from ddqueue.domain.measurement import Measurement
from ddqueue.domain.queueing import Claim, Lease, PhaseRecord, Runner
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome
from ddqueue.errors import NotReachable
from ddqueue.ports import AttemptStore, SameServer

Value = TypeVar("Value")

_PAUSE_S = 0.5


class PatientStore:
    """Every write is fenced or repeatable, so trying again after a cut is safe: what was committed before the cut is
    either refused by its fence or stored once by its key."""

    def __init__(self, store: AttemptStore, away_limit_s: float, claim_limit_s: float = 30.0) -> None:
        """`away_limit_s` bounds the trying once work was done; `claim_limit_s` before any was."""
        self._store = store
        self._away_limit_s = away_limit_s
        self._claim_limit_s = claim_limit_s

    def requeue_dead(self, host: str, why: str) -> list[int]:
        return _try(lambda: self._store.requeue_dead(host, why), self._claim_limit_s)

    def claim(self, host: str, job_id: int, runner: Runner, lease_ttl_s: float) -> Claim | None:
        # A claim whose answer was lost leaves a running row that this attempt does not know of; the host's next
        # attempt finds it dead and requeues it. So a claim is not tried again.
        return self._store.claim(host, job_id, runner, lease_ttl_s)

    def heartbeat(self, claim: Claim, lease_ttl_s: float, activity: str = "") -> Lease:
        return self._store.heartbeat(claim, lease_ttl_s, activity)

    def record_phase(self, claim: Claim, phase: PhaseRecord) -> None:
        _try(lambda: self._store.record_phase(claim, phase), self._away_limit_s)

    def record_provenance(self, claim: Claim, values: Mapping[str, Any]) -> None:
        _try(lambda: self._store.record_provenance(claim, values), self._away_limit_s)

    def record_configuration(
        self,
        claim: Claim,
        requested: Mapping[str, Any],
        effective: Mapping[str, Any],
        difference: Mapping[str, Any],
        effective_hash: str = "",
    ) -> None:
        _try(
            lambda: self._store.record_configuration(claim, requested, effective, difference, effective_hash),
            self._away_limit_s,
        )

    def same_server(self, claim: Claim, effective_hash: str) -> SameServer | None:
        return _try(lambda: self._store.same_server(claim, effective_hash), self._away_limit_s)

    def record_measurement(self, claim: Claim, measurement: Measurement) -> None:
        _try(lambda: self._store.record_measurement(claim, measurement), self._away_limit_s)

    def finish(
        self,
        claim: Claim,
        outcome: AttemptOutcome,
        decision: Decision,
        failure: Failure | None = None,
        evidence: str | None = None,
    ) -> None:
        _try(lambda: self._store.finish(claim, outcome, decision, failure, evidence), self._away_limit_s)

    def quarantine(self, host: str, failure: Failure, evidence: str) -> None:
        _try(lambda: self._store.quarantine(host, failure, evidence), self._away_limit_s)


def _try(action: Callable[[], Value], limit_s: float) -> Value:
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return action()
        except NotReachable:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
