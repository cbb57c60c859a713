"""The states of a job and the outcomes of an attempt: one table, with who moves a job out of each state.

```
            claim                       finish
  queued ----------> running --------------------------> succeeded
    |  ^                | |  \\--------------------------> failed, pruned
    |  |   lost, host   | |   \\-------------------------> unsupported
    |  +-- fault, or ---+ +----------------------------> cancelled
    |      retryable                                         ^
    +------------------------ cancel ------------------------+
  failed, unsupported, cancelled, pruned -- retry (a person) --> queued
  queued --> pruned, when an earlier visit of the same configuration was
```
"""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    """Where a job is."""

    QUEUED = "queued"
    """Waits for its host. The host's next attempt claims it; `cancel` ends it."""
    RUNNING = "running"
    """One attempt holds its fence. That attempt finishes it; if it died, whoever next holds the host's lock requeues
    it; a cancel is a wish that the attempt carries out."""
    SUCCEEDED = "succeeded"
    """Measured, and exactly one attempt's results are accepted. Final."""
    FAILED = "failed"
    """Ended with a failure class that is not tried again, or whose tries are used up. Final until a person retries."""
    UNSUPPORTED = "unsupported"
    """This build or box cannot run this configuration: a result of its own kind. Final until a person retries."""
    CANCELLED = "cancelled"
    """A person ended it. Final until a person retries."""
    PRUNED = "pruned"
    """Given up, as its sweep allows: another configuration is clearly faster at every point. What was measured stays,
    unranked; a later visit was not run at all. Final until a person retries."""


class AttemptOutcome(StrEnum):
    """How one execution of a job ended; none while it runs."""

    SUCCEEDED = "succeeded"
    """Its results were accepted, in the same transaction."""
    FAILED = "failed"
    """It ended with a failure class and its evidence."""
    LOST = "lost"
    """It vanished: its process died, or its fence was taken; written by whoever held the host's lock afterwards."""
    CANCELLED = "cancelled"
    """It was stopped by a person, or because its worker was told to stop."""
    PRUNED = "pruned"
    """It measured every point once and stopped there: another configuration is clearly faster everywhere."""


FINAL = frozenset(
    {JobState.SUCCEEDED, JobState.FAILED, JobState.UNSUPPORTED, JobState.CANCELLED, JobState.PRUNED},
)
"""States in which no attempt runs and none is waited for."""

RETRYABLE_BY_HAND = frozenset({JobState.FAILED, JobState.UNSUPPORTED, JobState.CANCELLED, JobState.PRUNED})
"""States from which `ddqueue retry` puts a job back into the queue."""

TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset({JobState.RUNNING, JobState.CANCELLED, JobState.PRUNED}),
    JobState.RUNNING: FINAL | {JobState.QUEUED},
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset({JobState.QUEUED}),
    JobState.UNSUPPORTED: frozenset({JobState.QUEUED}),
    JobState.CANCELLED: frozenset({JobState.QUEUED}),
    JobState.PRUNED: frozenset({JobState.QUEUED}),
}


def may_move(before: JobState, after: JobState) -> bool:
    """Whether the table allows this move; the schema and the SQL allow no other."""
    return after in TRANSITIONS[before]
