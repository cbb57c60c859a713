"""The words by which SGLang, torch, Triton, NCCL and the driver say what went wrong, each with its failure class.

Two kinds of words. An exception's message decides wherever it stands in the message, because an exception's line begins
at the left margin with the exception's name, which no log message does. Anything else decides only at the very start
of what was logged: warnings, argument dumps and requests quote the same words in their middle.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from ddqueue.domain.failures import Failure


class Weight(IntEnum):
    """How near a finding is to the cause; the lowest wins, then the earliest."""

    CAUSE = 0
    """Names the cause."""
    CRASH = 1
    """Something broke or hung here, the words do not say why; other ranks may only have noticed it."""
    ECHO = 2
    """Follows from another process's end; decides only when nothing else was said."""


@dataclass(frozen=True)
class Sign:
    """`failure` is None where the phase decides: memory ran out. `transient`: the same try may pass later.

    `alone`: decides also at the start of a line that is neither a log message nor an exception, as a client's report of
    the server's answer is. `certain`: the words alone show that the server ends.
    """

    failure: Failure | None
    words: re.Pattern[str]
    weight: Weight = Weight.CAUSE
    transient: bool = False
    alone: bool = False
    certain: bool = False


_GPU_KIND = r"(?:\bsm_?\d|\bSM ?\d|\bSM ?[<>=]|compute capability|\bHopper\b|\bBlackwell\b)"

IN_EXCEPTIONS: tuple[Sign, ...] = (
    Sign(
        Failure.MODEL_NOT_FOUND,
        re.compile(
            r"429 Client Error|429 Too Many|Too Many Requests|50[0234] Server Error"
            r"|We couldn't connect to|Cannot find the requested files in the (?:local|disk) cache|OfflineModeIsEnabled"
            r"|an error happened while trying to locate the file on the Hub",
            re.I,
        ),
        transient=True,
    ),
    Sign(
        Failure.MODEL_NOT_FOUND,
        re.compile(
            r"HFValidationError|Repo id must|(?:Repository|Revision|Entry)NotFoundError|GatedRepoError"
            r"|does not appear to have (?:a file|any file)|is not a local folder and is not a valid model identifier"
            r"|Can't load (?:the configuration|tokenizer|the model)|Cannot find any model weights"
            r"|Incorrect path_or_model|Unrecognized model in|SafetensorError"
            r"|(?:FileNotFoundError|PermissionError).*(?:\.safetensors|\.json|\.model\b)"
        ),
    ),
    Sign(
        Failure.KV_TOO_SMALL,
        re.compile(
            r"leave no GPU memory for the KV cache|Not enough memory\. Please try to increase --mem-fraction-static"
            r"|Memory pool size is too small"
        ),
        alone=True,
    ),
    Sign(Failure.OOM_RUN, re.compile(r"(?:Prefill|Decode) out of memory|Out of memory\. Try to lower your batch size")),
    Sign(
        None,
        re.compile(
            r"(?:CUDA|HIP) out of memory|OutOfMemoryError|CUDA error: out of memory"
            r"|(?:CUBLAS|CUDNN)_STATUS_ALLOC_FAILED|Triton Error \[CUDA\]: out of memory"
            r"|Cuda failure \d* ?'out of memory'"
        ),
        alone=True,
    ),
    Sign(
        Failure.UNSUPPORTED_ARCH,
        re.compile(
            r"out of resource: shared memory|no kernel image is available|device kernel image is invalid"
            r"|\bptxas\b.*(?:sm_\d|exit status 255|fatal)|PTXASError|[Uu]nsupported gpu architecture"
            r"|Unsupported architecture(?!s)"
        ),
        alone=True,
    ),
    Sign(
        Failure.UNSUPPORTED_ARCH,
        re.compile(
            rf"(?:[Oo]nly|[Rr]equires?|[Uu]nsupported|supported (?:on|for))[^.]{{0,60}}{_GPU_KIND}"
            rf"|{_GPU_KIND}[^.]{{0,60}}not (?:yet )?supported"
        ),
    ),
    Sign(
        Failure.GPU_LOST,
        re.compile(
            r"uncorrectable (?:ECC|NVLink) error|GPU is lost|fallen off the bus|Unable to determine the device handle"
            r"|Failed to initialize NVML|no CUDA-capable device is detected|No CUDA GPUs are available"
            r"|system not yet initialized|system has unsupported display driver"
        ),
        alone=True,
    ),
    Sign(
        Failure.GPU_BUSY,
        re.compile(r"memory capacity is unbalanced|CUDA-capable device\(s\) is/are busy or unavailable"),
    ),
    Sign(
        Failure.SHM_FULL,
        re.compile(r"No space left on device.*(?:/dev/shm|shared memory|psm_)|/dev/shm.*No space left on device"),
    ),
    Sign(
        Failure.PORT_BUSY,
        re.compile(r"\[Errno 98\]|[Aa]ddress already in use|EADDRINUSE|port(?:_base)? at \d+ is not available in"),
    ),
    # Every GPU of the box answered before the launch, so the configuration asked for more than there are.
    Sign(Failure.UNSUPPORTED, re.compile(r"invalid device ordinal")),
    Sign(
        Failure.BAD_ARGS,
        re.compile(
            r"[Uu]nknown [\w -]{0,40}(?:algorithm|backend|parser|quantization)|[Ii]nvalid (?:value|choice)"
            r"|must be (?:>|<|one of|at least|greater|less|positive|in the range|between)|max_running_request is zero"
        ),
    ),
    Sign(
        Failure.UNSUPPORTED,
        re.compile(
            r"only supports?\b|[Nn]ot (?:yet |currently |be )?supported|(?:does|do) not (?:yet |currently )?support"
            r"|[Uu]nsupported|incompatible with|not compatible with|not divisible|must be divisible"
            r"|cannot be used (?:with|together)|mutually exclusive|does not recognize this architecture"
            r"|NotImplementedError"
        ),
    ),
    Sign(
        Failure.SERVER_CRASHED,
        re.compile(
            r"scheduler (?:died during initialization|is dead)|other ranks that didn't finish loading"
            r"|Connection (?:closed|reset) by peer|Connection refused|Broken pipe|caused by a remote worker crashing"
        ),
        Weight.ECHO,
    ),
    Sign(
        Failure.CAPTURE_FAILED,
        re.compile(
            r"[Cc]apture .{0,40}graph failed|CUDA graph (?:capture )?failed|using backend: \S+ for prefill runner"
        ),
    ),
    Sign(
        Failure.NCCL_HANG,
        re.compile(
            r"NCCL error|DistBackendError|DistStoreError|DistNetworkError.*timed out|collective operation timeout"
        ),
        Weight.CRASH,
    ),
    Sign(Failure.READY_TIMEOUT, re.compile(r"ReadTimeout.*HTTPConnectionPool"), Weight.CRASH),
)
"""Tried in this order: what says most comes first, what wraps another error last."""

_PROCESS_GROUP = r"(?:\[rank\d+\]:)?\[E[\d :.]+ProcessGroupNCCL\.cpp:\d+\] "

AT_START: tuple[Sign, ...] = (
    Sign(
        Failure.BAD_ARGS,
        re.compile(
            r"[\w./ -]{1,200}: error: (?:unrecognized arguments|argument |the following arg|ambiguous|expected)"
        ),
        certain=True,
    ),
    Sign(
        Failure.OOM_RUN,
        re.compile(r"(?:Prefill|Decode) out of memory|Out of memory\. Try to lower your batch size"),
        certain=True,
    ),
    Sign(Failure.PORT_BUSY, re.compile(r"(?:ERROR: +)?\[Errno 98\]"), certain=True),
    Sign(
        Failure.SHM_FULL,
        re.compile(
            r"(?:.{0,200}NCCL WARN )?Error(?: while creating shared memory segment /dev/shm/\S+ \(size \d+\)"
            r"(?!, error: (?!No space))|: failed to extend /dev/shm/.*No space left)"
            r"|(?:ERROR: )?Unexpected bus error encountered in worker|Fatal Python error: Bus error"
        ),
    ),
    Sign(Failure.UNSUPPORTED_ARCH, re.compile(r"(?:ptxas\S*|nvcc) fatal *: .*(?:gpu-name|[Uu]nsupported gpu arch)")),
    Sign(Failure.GPU_LOST, re.compile(r"(?:\[[\d. ]+\] )?NVRM: Xid|NVRM: GPU .*fallen off the bus")),
    Sign(
        Failure.SERVER_STALLED,
        re.compile(r"(?:\w+ )?[Ww]atchdog timeout \((?!.*soft=True)"),
        Weight.CRASH,
        certain=True,
    ),
    Sign(
        Failure.NCCL_HANG,
        re.compile(rf"{_PROCESS_GROUP}.*(?:collective operation timeout|[Tt]imed? ?out)"),
        Weight.CRASH,
        certain=True,
    ),
    Sign(Failure.SERVER_CRASHED, re.compile(r"Fatal Python error: Segmentation fault"), Weight.CRASH, certain=True),
    Sign(
        Failure.SERVER_CRASHED,
        re.compile(r"Subprocess \S+ \(pid=\d+\) crashed with|Fatal Python error|terminate called after throwing"),
        Weight.ECHO,
        certain=True,
    ),
)

_UNSTAMPED = (*AT_START, *(sign for sign in IN_EXCEPTIONS if sign.alone))
_WORDS_AT_START = (
    *("rror", "ut of memory", "atchdog", "fatal", "Fatal", "crashed", "terminate called", "NVRM", "GPU", "CUDA"),
    *("Errno", "resource", "kernel image", "Not enough memory", "Memory pool", "NVML", "STATUS", "architecture"),
    *("ptxas", "PTXAS", "initialized", "Cuda failure", "device", "driver"),
)
"""Every sign above has one of them; looking for plain words first keeps a long log quick to read."""

_EXCEPTION = re.compile(
    r"(?:\[rank\d+\]: ?)?((?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Timeout|OutOfResources|NotFound|IsEnabled|Exit"
    r"|Interrupt))(?:: ?(?:.*))?$"
)
_ENDED_ON_PURPOSE = re.compile(r"(?:SystemExit|KeyboardInterrupt)\b")
_QUOTES = re.compile(r"server_args=|.{0,60}GenerateReqInput\(|.{0,60}NCCL INFO |Endpoint '")


def exception_name(text: str) -> str | None:
    """The exception's class when this line is the last one of a traceback, e.g. `ValueError`."""
    match = _EXCEPTION.match(text)
    if match is None or _ENDED_ON_PURPOSE.match(match.group(1)):
        return None
    return match.group(1).rpartition(".")[2]


def sign_in_exception(text: str) -> Sign | None:
    """What an exception's line says."""
    return next((sign for sign in IN_EXCEPTIONS if sign.words.search(text)), None)


def sign_at_start(body: str, *, stamped: bool) -> Sign | None:
    """What a line says that is no exception's. `stamped`: a log message, so none of an exception's further lines."""
    if not any(word in body for word in _WORDS_AT_START) or _QUOTES.match(body):
        return None
    return next((sign for sign in (AT_START if stamped else _UNSTAMPED) if sign.words.match(body)), None)
