"""What follows a failed attempt: a decision, which somebody else applies."""

from __future__ import annotations

from dataclasses import dataclass

from ddqueue.domain.failures import POLICIES, Failure, Scope
from ddqueue.domain.states import JobState

BACKOFF_BASE_S = 10.0
BACKOFF_LIMIT_S = 600.0


@dataclass(frozen=True)
class Decision:
    """The job's next state; when queued again, not before `delay_s`; `counts` = the attempt used up a try;
    `quarantine` = the host takes no more work until it is released."""

    state: JobState
    delay_s: float = 0.0
    counts: bool = True
    quarantine: bool = False


TRIES_IF_IT_MAY_PASS = 3

LOST_LIMIT = 6
"""How often a job's attempts may vanish with their process before the job counts as the reason: a worker that is
restarted, or a box that loses power, does that once or twice; a job that brings the box down does it every time."""


def after_failure(failure: Failure, tries_used: int, may_pass: bool = False) -> Decision:
    """Decide what follows `failure` for a job that has used `tries_used` tries, this one included.

    `may_pass` gives a failure of any configuration TRIES_IF_IT_MAY_PASS tries in all.

    Back-off doubles from BACKOFF_BASE_S with each try used, up to BACKOFF_LIMIT_S.
    """
    policy = POLICIES[failure]
    if policy.scope is Scope.PERSON:
        return Decision(JobState.CANCELLED)
    if policy.scope is Scope.HOST:
        return Decision(JobState.QUEUED, counts=False, quarantine=True)
    tries = max(policy.tries, TRIES_IF_IT_MAY_PASS) if may_pass else policy.tries
    if (policy.scope is Scope.TRANSIENT or may_pass) and tries_used < tries:
        return Decision(JobState.QUEUED, delay_s=min(BACKOFF_BASE_S * 2 ** (tries_used - 1), BACKOFF_LIMIT_S))
    if failure in (Failure.UNSUPPORTED, Failure.UNSUPPORTED_ARCH):
        return Decision(JobState.UNSUPPORTED)
    return Decision(JobState.FAILED)
