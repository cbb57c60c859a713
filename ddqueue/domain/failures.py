"""The closed list of failure classes: each with its scope, how often it is tried again, and what a person can do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ddqueue.errors import DdqueueError


class Scope(StrEnum):
    """What is to blame, and so what may be done about it."""

    CONFIGURATION = "configuration"
    """Deterministic: the same configuration fails again. Not tried again."""
    HOST = "host"
    """The box. The job goes back to the queue without losing a try; the host is quarantined with the reason."""
    TRANSIENT = "transient"
    """May pass by itself: tried again a bounded number of times, with back-off."""
    PERSON = "person"
    """Somebody asked for it; not a fault."""


class Failure(StrEnum):
    """Why an attempt did not succeed."""

    BAD_ARGS = "BAD_ARGS"
    UNSUPPORTED = "UNSUPPORTED"
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    OOM_LOAD = "OOM_LOAD"
    KV_TOO_SMALL = "KV_TOO_SMALL"
    OOM_CAPTURE = "OOM_CAPTURE"
    CAPTURE_FAILED = "CAPTURE_FAILED"
    CAPTURE_HANG = "CAPTURE_HANG"
    OOM_RUN = "OOM_RUN"
    UNSUPPORTED_ARCH = "UNSUPPORTED_ARCH"
    NCCL_HANG = "NCCL_HANG"
    JIT_TIMEOUT = "JIT_TIMEOUT"
    READY_TIMEOUT = "READY_TIMEOUT"
    SERVER_CRASHED = "SERVER_CRASHED"
    SERVER_STALLED = "SERVER_STALLED"
    CONFIG_OVERRIDDEN = "CONFIG_OVERRIDDEN"
    PORT_BUSY = "PORT_BUSY"
    GPU_BUSY = "GPU_BUSY"
    GPU_NOT_RELEASED = "GPU_NOT_RELEASED"
    GPU_LOST = "GPU_LOST"
    SHM_FULL = "SHM_FULL"
    SHORT_OUTPUT = "SHORT_OUTPUT"
    CLIENT_BOUND = "CLIENT_BOUND"
    CORRECTNESS_DROP = "CORRECTNESS_DROP"
    LEASE_LOST = "LEASE_LOST"
    CANCELLED = "CANCELLED"
    INFRA = "INFRA"


@dataclass(frozen=True)
class FailurePolicy:
    """`tries` counts all attempts a job gets at this class: 1 = never again."""

    scope: Scope
    tries: int
    remedy: str


_CONFIGURATION, _HOST, _TRANSIENT = Scope.CONFIGURATION, Scope.HOST, Scope.TRANSIENT

POLICIES: dict[Failure, FailurePolicy] = {
    Failure.BAD_ARGS: FailurePolicy(
        _CONFIGURATION, 1, "The engine refused an argument: correct it in the sweep or in the engine profile."
    ),
    Failure.UNSUPPORTED: FailurePolicy(
        _CONFIGURATION, 1, "This build cannot run this combination: take it out of the sweep, or use another build."
    ),
    Failure.MODEL_NOT_FOUND: FailurePolicy(
        _CONFIGURATION, 1, "Check the model's and the drafter's path for this host in the inventory."
    ),
    Failure.OOM_LOAD: FailurePolicy(
        _CONFIGURATION, 1, "The weights do not fit: use more GPUs per server or a smaller quantisation."
    ),
    Failure.KV_TOO_SMALL: FailurePolicy(
        _CONFIGURATION, 1, "No room is left for the KV cache: raise args.mem-fraction-static."
    ),
    Failure.OOM_CAPTURE: FailurePolicy(
        _CONFIGURATION, 1, "CUDA graph capture ran out of memory: lower args.mem-fraction-static or the batch sizes."
    ),
    Failure.CAPTURE_FAILED: FailurePolicy(
        _CONFIGURATION, 1, "CUDA graph capture failed: the deciding log line names the kernel; try another backend."
    ),
    Failure.CAPTURE_HANG: FailurePolicy(
        _CONFIGURATION, 1, "CUDA graph capture made no progress: look at the last step in the log."
    ),
    Failure.OOM_RUN: FailurePolicy(
        _CONFIGURATION, 1, "The server ran out of memory under load: lower args.mem-fraction-static or concurrency."
    ),
    Failure.UNSUPPORTED_ARCH: FailurePolicy(
        _CONFIGURATION, 1, "A kernel does not exist for this kind of GPU: use another backend or build there."
    ),
    Failure.NCCL_HANG: FailurePolicy(
        _TRANSIENT, 2, "The ranks did not find each other: check NCCL variables, the topology and the driver."
    ),
    Failure.JIT_TIMEOUT: FailurePolicy(
        _TRANSIENT, 2, "Kernels were still compiling: keep the compile caches on a disk that lasts."
    ),
    Failure.READY_TIMEOUT: FailurePolicy(_TRANSIENT, 2, "The server did not become ready in time: look at its log."),
    Failure.SERVER_CRASHED: FailurePolicy(
        _TRANSIENT, 2, "The server died: the evidence holds its last phase, exit code and log tail."
    ),
    Failure.SERVER_STALLED: FailurePolicy(
        _TRANSIENT, 2, "The server stopped answering under load: look at the last lines of its log."
    ),
    Failure.CONFIG_OVERRIDDEN: FailurePolicy(
        _CONFIGURATION, 1, "The engine silently changed a setting: ask for what it can do, or use another build."
    ),
    Failure.PORT_BUSY: FailurePolicy(_TRANSIENT, 3, "Another process took the port: nothing to do, it is tried again."),
    Failure.GPU_BUSY: FailurePolicy(
        _HOST, 1, "Another process uses the GPUs: end it there yourself, then `ddqueue release HOST`."
    ),
    Failure.GPU_NOT_RELEASED: FailurePolicy(
        _HOST, 1, "GPU memory did not come back after the server ended: look at the box, then `ddqueue release HOST`."
    ),
    Failure.GPU_LOST: FailurePolicy(
        _HOST, 1, "A GPU is missing or sick: look at the driver's messages, then `ddqueue release HOST`."
    ),
    Failure.SHM_FULL: FailurePolicy(_HOST, 1, "/dev/shm is full: free it on the box, then `ddqueue release HOST`."),
    Failure.SHORT_OUTPUT: FailurePolicy(
        _CONFIGURATION, 1, "Answers were shorter than forced: the numbers would not be comparable."
    ),
    Failure.CLIENT_BOUND: FailurePolicy(
        _TRANSIENT, 2, "The load client was the limit, not the server: give the host's CPU some room."
    ),
    Failure.CORRECTNESS_DROP: FailurePolicy(
        _CONFIGURATION, 1, "Answers are worse than the same host's baseline: the cell is kept and not ranked."
    ),
    Failure.LEASE_LOST: FailurePolicy(
        _TRANSIENT, 3, "Another attempt owns the job now; nothing this one wrote afterwards counts."
    ),
    Failure.CANCELLED: FailurePolicy(Scope.PERSON, 1, "`ddqueue retry` puts it back into the queue."),
    Failure.INFRA: FailurePolicy(_TRANSIENT, 3, "ddqueue itself or a server it needs failed: the evidence says which."),
}


class AttemptFailure(DdqueueError):
    """An attempt cannot go on. `evidence` is the line or reading that decided, never a guess.

    `may_pass`: this time it may pass by itself, whatever the class's policy says: a hub that answered 429, say.
    """

    def __init__(self, failure: Failure, evidence: str, may_pass: bool = False) -> None:
        self.failure = failure
        self.evidence = evidence
        self.may_pass = may_pass
        super().__init__(f"{failure}: {evidence}")
