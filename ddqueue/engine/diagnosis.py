"""Why a server died or did not start: a class and the line that decided, from its log, last phase and exit code.

The exit code alone says little: a healthy server ends with -9 after SIGTERM, and so does one without room for its
KV cache. `Received sigquit from a child process` is never the cause.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ddqueue.domain.failures import Failure

_OUT_OF_MEMORY = re.compile(r"CUDA out of memory|torch\.(cuda\.)?OutOfMemoryError|CUDA error: out of memory", re.I)

_LINES: tuple[tuple[Failure, re.Pattern[str]], ...] = (
    (Failure.BAD_ARGS, re.compile(r"error: (unrecognized arguments|argument .*: |the following arguments|ambiguous)")),
    (Failure.UNSUPPORTED, re.compile(r"only supports pp_size|not supported (for|with|by)|is not compatible with")),
    (Failure.MODEL_NOT_FOUND, re.compile(r"429 Client Error|Too Many Requests|Repo id must|does not appear to have a")),
    (Failure.MODEL_NOT_FOUND, re.compile(r"(OSError|FileNotFoundError|HFValidationError|RepositoryNotFoundError): ")),
    (Failure.KV_TOO_SMALL, re.compile(r"leave no GPU memory for the KV cache|Not enough memory\. Please try to inc")),
    (Failure.UNSUPPORTED_ARCH, re.compile(r"out of resource: shared memory|no kernel image is available|ptxas .*sm_")),
    # Every GPU of the box answered before the launch, so the configuration asked for more than there are.
    (Failure.UNSUPPORTED, re.compile(r"invalid device ordinal")),
    (Failure.GPU_LOST, re.compile(r"GPU is lost|Xid|uncorrectable ECC|fallen off the bus")),
    (Failure.GPU_BUSY, re.compile(r"memory capacity is unbalanced")),
    (Failure.SHM_FULL, re.compile(r"No space left on device.*shm|shm.*No space left on device|Bus error")),
    (Failure.PORT_BUSY, re.compile(r"\[Errno 98\]|address already in use", re.I)),
    (Failure.OOM_RUN, re.compile(r"(Prefill|Decode) out of memory")),
    (Failure.CAPTURE_FAILED, re.compile(r"Capture cuda graph failed")),
    (Failure.NCCL_HANG, re.compile(r"NCCL.*(timeout|timed out)|Watchdog caught collective operation timeout", re.I)),
    (Failure.SERVER_STALLED, re.compile(r"watchdog timeout", re.I)),
)
"""Words that decide, in the order of how sure they are."""

_HARMLESS = re.compile(
    r"server_args=ServerArgs|does not appear to have a file named generation_config"
    r"|Ignore import error|Failed to load generation config"
)
_CRASH = re.compile(r"crashed with exit code|died during initialization|^\w*(Error|Exception)\b")
_LOADING = ("start process", "init distributed", "load weights")


@dataclass(frozen=True)
class Diagnosis:
    """`evidence` is the deciding line, or the last lines when none decided."""

    failure: Failure
    evidence: str


def diagnose(lines: Sequence[str], phase: str, exit_code: int | None = None) -> Diagnosis:
    """Explain an ended server. `lines` is the cleaned tail of its log, `phase` the last one it reached."""
    found = from_lines(lines, phase)
    if found is not None:
        return found
    if exit_code == 2:
        return Diagnosis(Failure.BAD_ARGS, _last(lines, exit_code, phase))
    return Diagnosis(Failure.SERVER_CRASHED, _last(lines, exit_code, phase))


def from_lines(lines: Sequence[str], phase: str) -> Diagnosis | None:
    """The class that the log's own words give; None when they decide nothing."""
    telling = [line for line in lines if not _HARMLESS.search(line)]
    for failure, pattern in _LINES:
        for line in telling:
            if pattern.search(line):
                if failure is Failure.CAPTURE_FAILED and _OUT_OF_MEMORY.search(line):
                    return Diagnosis(Failure.OOM_CAPTURE, line.strip())
                return Diagnosis(failure, line.strip())
    for line in telling:
        if _OUT_OF_MEMORY.search(line):
            return Diagnosis(_out_of_memory(phase), line.strip())
    return None


def _out_of_memory(phase: str) -> Failure:
    if phase in _LOADING:
        return Failure.OOM_LOAD
    if phase == "allocate KV cache":
        return Failure.KV_TOO_SMALL
    return Failure.OOM_RUN if phase in ("warm up", "serving") else Failure.OOM_CAPTURE


def _last(lines: Sequence[str], exit_code: int | None, phase: str) -> str:
    errors = [line for line in lines if _CRASH.search(line.strip())]
    deciding = errors[-1].strip() if errors else " / ".join(line.strip() for line in lines[-3:])
    return f"in phase '{phase}', exit code {exit_code}: {deciding or 'the log is empty'}"
