"""One attempt, read aloud: own the host, take it from production if it is borrowed, prove it clean, claim, launch, wait
ready, confirm, measure, stop, prove released, finish, release."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.queueing import Claim, Runner
from ddqueue.domain.retry import Decision, after_failure
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.errors import StaleFence
from ddqueue.ports import AttemptStore, CleanRoom, HostLock, Ownership
from ddqueue.services.borrowing import Borrowing
from ddqueue.services.giving_up import GivenUp
from ddqueue.services.heartbeat import Heartbeat
from ddqueue.services.serve_and_measure import ServeAndMeasure
from ddqueue.services.stopping import AttemptStopped, StopReason, StopSignal

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AttemptReport:
    """What became of one wake-up. `worked` is False when nothing was claimed, and `text` says why."""

    worked: bool
    text: str


@dataclass(frozen=True)
class Execute:
    """Runs at most one job on one host."""

    store: AttemptStore
    ownership: Ownership
    borrowing: Borrowing
    clean_room: CleanRoom
    work: ServeAndMeasure
    stop: StopSignal
    lease_ttl_s: float

    def run(self, host: str, job_id: int, runner: Runner) -> AttemptReport:
        """Take the host and work on the job, if both may be had.

        Raises:
            NotReachable: the database could not be reached before anything was claimed.
        """
        try:
            with self.ownership.own(host) as lock:
                if lock is None:
                    return AttemptReport(False, "the host is busy with a live attempt")
                self.store.deliver_left_over(host)
                for requeued in self.store.requeue_dead(host, "its attempt died: the host's lock was free"):
                    log.warning("job %d goes back to the queue: its attempt died", requeued)
                if self.borrowing.must_take() and not self.store.could_claim(host, job_id):
                    # Production must not stop for a job that was cancelled since the host was woken.
                    return AttemptReport(False, f"job {job_id} cannot be claimed now")
                with self.borrowing.taken(self.stop):
                    self.clean_room.prove_clean(self.stop.check)
                    claim = self.store.claim(host, job_id, runner, self.lease_ttl_s)
                    if claim is None:
                        return AttemptReport(False, f"job {job_id} cannot be claimed now")
                    return self._attempt(claim, lock)
        except AttemptFailure as fault:
            # Before the claim only the host can be at fault: nobody's job is blamed.
            self.store.quarantine(host, fault.failure, fault.evidence)
            return AttemptReport(False, f"{host} is quarantined: {fault}")
        except AttemptStopped as stopped:
            return AttemptReport(False, f"stopped before a claim: {stopped}")

    def _attempt(self, claim: Claim, lock: HostLock) -> AttemptReport:
        log.info("job %d, attempt %d, fence %d", claim.job_id, claim.attempt_number, claim.fence)
        host_fault = None
        with Heartbeat(self.store, claim, self.lease_ttl_s, self.stop, self.work.steps.doing):
            end = self._work(claim, lock)
            try:
                host_fault = self._release(claim)
                if end is not None:
                    self.store.finish(claim, end.outcome, end.decision, end.failure, end.evidence)
            except StaleFence:
                end = None
        if host_fault is not None:
            self.store.quarantine(claim.host, host_fault.failure, host_fault.evidence)
        if end is None:
            return AttemptReport(False, f"nothing more was stored: {StopReason.LEASE}")
        return AttemptReport(True, end.text)

    def _work(self, claim: Claim, lock: HostLock) -> _End | None:
        """How the work ended; None when nothing may be written any more."""
        try:
            self.work.run(claim, lock)
            return _End(AttemptOutcome.SUCCEEDED, Decision(JobState.SUCCEEDED))
        except GivenUp as why:
            return _End(AttemptOutcome.PRUNED, Decision(JobState.PRUNED), None, str(why))
        except AttemptStopped as stopped:
            return _after_stop(stopped.reason, claim)
        except AttemptFailure as fault:
            return _after_fault(fault, claim)
        except StaleFence:
            return None
        except Exception as error:
            log.exception("the attempt failed for a reason of its own")
            return _after_fault(AttemptFailure(Failure.INFRA, f"{type(error).__name__}: {error}"), claim)

    def _release(self, claim: Claim) -> AttemptFailure | None:
        """End what escaped the server's session and prove the GPUs free; a fault here is the host's, not the job's."""
        try:
            for pid in self.ownership.end_strays(claim.host):
                log.warning("ended pid %d, which had left the server's session", pid)
            self.work.steps.timed(claim, "release", self.clean_room.prove_released)
        except AttemptFailure as fault:
            log.error("%s", fault)
            return fault
        return None


@dataclass(frozen=True)
class _End:
    outcome: AttemptOutcome
    decision: Decision
    failure: Failure | None = None
    evidence: str | None = None

    @property
    def text(self) -> str:
        return ": ".join(part for part in (self.outcome, self.failure, self.evidence) if part)


def _after_stop(reason: StopReason, claim: Claim) -> _End | None:
    """None when nothing may be written any more."""
    if reason is StopReason.LEASE:
        return None
    if reason is StopReason.PERSON:
        return _End(AttemptOutcome.CANCELLED, Decision(JobState.CANCELLED), Failure.CANCELLED, str(reason))
    if reason in (StopReason.WORKER, StopReason.HOLD, StopReason.HOURS):
        return _End(AttemptOutcome.CANCELLED, Decision(JobState.QUEUED, counts=False), Failure.CANCELLED, str(reason))
    return _after_fault(AttemptFailure(Failure.SERVER_STALLED, str(reason)), claim)


def _after_fault(fault: AttemptFailure, claim: Claim) -> _End:
    decision = after_failure(fault.failure, claim.tries_used + 1, fault.may_pass)
    return _End(AttemptOutcome.FAILED, decision, fault.failure, fault.evidence)
