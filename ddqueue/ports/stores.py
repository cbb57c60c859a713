"""Where sweeps, attempts and scores are kept, and how the dispatcher asks and wakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from ddqueue.domain.coding import Answer, Outcome, Score, Scored, Suite
from ddqueue.domain.dominance import Rival
from ddqueue.domain.failures import Failure
from ddqueue.domain.inventory import Host
from ddqueue.domain.measurement import Measurement
from ddqueue.domain.queueing import CarriedRepeat, Claim, Lease, NextJob, PhaseRecord, Runner
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome
from ddqueue.domain.sweep import JobSpec, Sweep
from ddqueue.ports.engine import SameServer


@dataclass(frozen=True)
class Submitted:
    """A stored sweep: its id, revision (1 for a new name) and number of jobs."""

    sweep_id: int
    name: str
    revision: int
    jobs: int


class SweepStore(Protocol):
    """Where sweeps are kept. Every method raises NotReachable when the database does not answer."""

    def add(
        self,
        sweep: Sweep,
        jobs: Sequence[JobSpec],
        hosts: Sequence[Host],
        priority: int = 0,
        after: int | None = None,
        webhook: str | None = None,
    ) -> Submitted:
        """Store the sweep, its cells and its jobs in one transaction, and wake the dispatcher on commit.

        None of its jobs starts before the sweep with the id `after` has ended; the URL `webhook` is told of its end.
        """
        ...


class AttemptStore(Protocol):
    """The fenced side of the queue, used by the attempt that owns a host.

    Every write after `claim` carries the fence; a stale one writes nothing and raises StaleFence.
    """

    def deliver_left_over(self, host: str) -> int:
        """Store what earlier attempts on the host measured and could not deliver, each under its own fence; only
        whoever holds the host's lock may call it, and before `requeue_dead`. Returns the number of entries stored."""
        ...

    def requeue_dead(self, host: str, why: str) -> list[int]:
        """Requeue every running job of `host`; only whoever holds the host's lock may call it. Returns job ids."""
        ...

    def claim(self, host: str, job_id: int, runner: Runner, lease_ttl_s: float) -> Claim | None:
        """Take the job if it may run now; None when it is not queued, paused, cancelled, or the host may not work."""
        ...

    def could_claim(self, host: str, job_id: int) -> bool:
        """What `claim` would answer just now; nothing is changed. Asked before a box is taken from production."""
        ...

    def heartbeat(self, claim: Claim, lease_ttl_s: float, activity: str = "") -> Lease:
        """Prolong the lease and say what the attempt does now. Never raises StaleFence: LOST says it."""
        ...

    def record_phase(self, claim: Claim, phase: PhaseRecord) -> None: ...

    def record_provenance(self, claim: Claim, values: Mapping[str, Any]) -> None: ...

    def record_configuration(
        self,
        claim: Claim,
        requested: Mapping[str, Any],
        effective: Mapping[str, Any],
        difference: Mapping[str, Any],
        effective_hash: str = "",
    ) -> None: ...

    def same_server(self, claim: Claim, effective_hash: str) -> SameServer | None:
        """A job of another cell of the sweep, on this host and with this parallelism, measured on an equal server."""
        ...

    def carry_over(self, claim: Claim, effective_hash: str) -> list[CarriedRepeat]:
        """Take over the valid repeats that earlier attempts of this job measured on an equal server."""
        ...

    def rivals(self, claim: Claim) -> list[Rival]:
        """The cells, measured whole, for which this one may be given up; none where it is to be measured whole too."""
        ...

    def record_measurement(self, claim: Claim, measurement: Measurement) -> None: ...

    def record_answers(self, claim: Claim, suite: Suite, answers: Sequence[Answer]) -> None: ...

    def record_scores(self, claim: Claim, scorer: str, scored: Sequence[Scored]) -> None:
        """The first judgement of answers that were recorded before; `scorer` names the versions that made it."""
        ...

    def finish(
        self,
        claim: Claim,
        outcome: AttemptOutcome,
        decision: Decision,
        failure: Failure | None = None,
        evidence: str | None = None,
    ) -> None:
        """End the attempt and move the job, in one transaction; quarantines the host when the decision says so."""
        ...

    def quarantine(self, host: str, failure: Failure, evidence: str) -> None:
        """The host takes no work until released; for a fault found before any job was claimed."""
        ...


class DispatchStore(Protocol):
    """What the dispatcher asks. One leader at a time, by a lock that ends with its connection."""

    def lead(self) -> AbstractContextManager[None]:
        """Blocks until this process is the leader."""
        ...

    def next_jobs(self, wake_again_after_s: float) -> list[NextJob]:
        """At most one job for each idle host that has not been woken within `wake_again_after_s`; marks them woken.

        A host whose running job has let its lease expire counts as idle: waking it starts recovery there.
        """
        ...

    def wait(self, timeout_s: float) -> None:
        """Return when something changed, or after `timeout_s`."""
        ...


class Wakeups(Protocol):
    """The broker side of the dispatcher."""

    def wake(self, job: NextJob) -> None:
        """Replace whatever waits in the host's queue by one wake-up. Raises NotReachable."""
        ...


@dataclass(frozen=True)
class StoredAnswer:
    """An answer with its id and whose it is. `score` is the newest outcome; None when it was never scored."""

    answer_id: int
    job_id: int
    attempt: int
    host: str
    parallel: str
    label: str
    suite: str
    suite_digest: str
    answer: Answer
    score: Outcome | None = None


class ScoreStore(Protocol):
    """Answers of sweeps, to be scored again. Every method raises NotReachable when the database does not answer."""

    def answers(self, sweep_id: int) -> list[StoredAnswer]:
        """Every answer of the sweep's attempts that have ended, in the order asked."""
        ...

    def add_scores(self, scorer: str, scores: Mapping[int, Score]) -> None:
        """A further judgement of each answer, by id, all or none; those there are stay."""
        ...
