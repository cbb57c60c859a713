"""Every failure class that a log can show: real logs, and made-up ones that could mislead."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddqueue.domain.failures import Failure
from ddqueue.engine.diagnosis import diagnose, from_lines, of_silence, was_asked_to_stop
from ddqueue.engine.logs import LogReader, LogText, Progress
from ddqueue.engine.phases import phase_begun

LOGS = Path(__file__).parents[1] / "data" / "logs"
CASES = LOGS / "cases"

HEALTHY = [
    *(LOGS / "sglang-0.5.15" / f"{name}.log" for name in ("base", "df8", "df16", "topk", "win")),
    *sorted((LOGS / "h200-trained").glob("*.log")),
    *(LOGS / "h200-two-gpus" / f"{name}.log" for name in ("tp2-df8", "ep2-moe-df8")),
    *sorted((LOGS / "sglang-ddtree-fork").glob("*.log")),
    CASES / "healthy-but-alarming.log",
]

EXPECTED: dict[str, tuple[Failure, str]] = {
    "arch-backend": (Failure.UNSUPPORTED_ARCH, "requires SM>=80 and SM<=90"),
    "arch-ptxas": (Failure.UNSUPPORTED_ARCH, "--gpu-name=sm_103a"),
    "arch-shared-memory": (Failure.UNSUPPORTED_ARCH, "Required: 147456, Hardware limit: 101376"),
    "bad-args-algorithm": (Failure.BAD_ARGS, "Unknown speculative algorithm: DDTREE"),
    "bad-args-checked": (Failure.BAD_ARGS, "ValueError: The draft window 4 is smaller than the block 8."),
    "bad-args-choice": (Failure.BAD_ARGS, "invalid choice: 'DDTREE'"),
    "capture-failed": (Failure.CAPTURE_FAILED, "Capture cuda graph failed: Ninja build failed."),
    "fetch-429": (Failure.MODEL_NOT_FOUND, "429 Client Error: Too Many Requests"),
    "gpu-busy": (Failure.GPU_BUSY, "The memory capacity is unbalanced."),
    "gpu-lost-ecc": (Failure.GPU_LOST, "uncorrectable ECC error encountered"),
    "illegal-access-one-rank": (Failure.SERVER_CRASHED, "an illegal memory access was encountered"),
    "jit-timeout": (Failure.JIT_TIMEOUT, "Read timed out. (read timeout=600)"),
    "kv-too-small": (Failure.KV_TOO_SMALL, "Not enough memory. Please try to increase --mem-fraction-static"),
    "model-files-missing": (Failure.MODEL_NOT_FOUND, "model-00007-of-00096.safetensors"),
    "nccl-hang": (Failure.NCCL_HANG, "[Rank 2] Watchdog caught collective operation timeout"),
    "oom-capture": (Failure.OOM_CAPTURE, "CUDA out of memory. Tried to allocate 448.00 MiB. GPU 5"),
    "oom-load-drafter": (Failure.OOM_LOAD, "CUDA out of memory"),
    "oom-load-one-rank": (Failure.OOM_LOAD, "CUDA out of memory. Tried to allocate 448.00 MiB. GPU 3"),
    "oom-run": (Failure.OOM_RUN, "Prefill out of memory. Try to lower your batch size."),
    "oom-run-torch": (Failure.OOM_RUN, "CUDA out of memory. Tried to allocate 448.00 MiB. GPU 3"),
    "port-busy-stale-server": (Failure.PORT_BUSY, "[Errno 98] error while attempting to bind"),
    "port-busy-zmq": (Failure.PORT_BUSY, "ZMQError: Address already in use"),
    "port-not-the-one-asked": (Failure.PORT_BUSY, "Uvicorn running on http://127.0.0.1:30001"),
    "rank-killed": (Failure.SERVER_CRASHED, "Rank 3 scheduler died during initialization (exit code: -9)"),
    "ready-timeout": (Failure.READY_TIMEOUT, "Read timed out. (read timeout=600)"),
    "shm-full": (Failure.SHM_FULL, "Error while creating shared memory segment /dev/shm/nccl-lNPZ0f"),
    "stalled": (Failure.SERVER_STALLED, "Scheduler watchdog timeout"),
    "unsupported-backend": (Failure.UNSUPPORTED, "does not support speculative decoding"),
    "unsupported-block-quantised-moe": (Failure.UNSUPPORTED, "192 is not divisible by weight quantization block_n"),
}


def read(path: Path) -> LogReader:
    reader = LogReader(path)
    reader.read()
    return reader


def fed(data: bytes) -> LogText:
    text = LogText()
    text.feed(data)
    return text


def all_lines(path: Path) -> list[str]:
    """Every line, as a reader that keeps everything would see it."""
    return path.read_bytes().decode("utf-8", "replace").replace("\r", "\n").split("\n")


@pytest.mark.parametrize(
    ("name", "exit_code", "failure", "words"),
    [
        ("badflag", 2, Failure.BAD_ARGS, "unrecognized arguments: --speculative-ddtree-budget 8"),
        ("pp", 1, Failure.UNSUPPORTED, "only supports pp_size == 1"),
        ("nodraft", 1, Failure.MODEL_NOT_FOUND, "Repo id must"),
        ("oom", -9, Failure.KV_TOO_SMALL, "leave no GPU memory for the KV cache"),
        ("tp8", -9, Failure.UNSUPPORTED, "invalid device ordinal"),
        ("crash", -9, Failure.SERVER_CRASHED, "scheduler_0 (pid=1063) crashed"),
        ("../h200-two-gpus/rank-killed", -9, Failure.SERVER_CRASHED, "Connection reset by peer"),
    ],
)
def test_why_a_real_server_died(name: str, exit_code: int, failure: Failure, words: str) -> None:
    reader = read(LOGS / "sglang-0.5.15" / f"{name}.log")
    for lines in (reader.telling, reader.tail, all_lines(LOGS / "sglang-0.5.15" / f"{name}.log")):
        found = diagnose(lines, reader.progress.phase, exit_code)
        assert found.failure is failure
        assert words in found.evidence


@pytest.mark.parametrize("name", EXPECTED)
def test_every_class_that_a_log_can_show(name: str) -> None:
    failure, words = EXPECTED[name]
    reader = read(CASES / f"{name}.log")
    for lines in (reader.telling, all_lines(CASES / f"{name}.log")):
        found = from_lines(lines, reader.progress.phase)
        assert found is not None
        assert found.failure is failure
        assert words in found.evidence
        assert found.index is not None
        assert lines[found.index].strip() == found.evidence


def test_every_case_is_expected_somewhere() -> None:
    assert {path.stem for path in CASES.glob("*.log")} == {*EXPECTED, "healthy-but-alarming", "capture-hang"}


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.stem)
def test_a_healthy_log_gives_nothing_even_when_read_in_full(path: Path) -> None:
    reader = read(path)
    assert reader.progress.phase == "serving"
    assert from_lines(reader.telling, "serving") is None
    assert from_lines(all_lines(path), "serving") is None
    # One of them was killed without a word.
    assert was_asked_to_stop(reader.telling) == (path.stem != "win")


def test_a_server_that_somebody_stopped_is_no_riddle() -> None:
    reader = read(HEALTHY[0])
    found = diagnose(reader.telling, "serving", -9)
    assert found.failure is Failure.SERVER_CRASHED
    assert found.evidence.startswith("in phase 'serving', exit code -9 (SIGKILL), asked to stop: [2026-11-29 11:45:01]")


@pytest.mark.parametrize("name", ["fetch-429", "oom-capture", "nccl-hang", "stalled", "bad-args-choice"])
def test_a_line_that_ends_a_server_is_certain_while_its_parent_lives(name: str) -> None:
    reader = read(CASES / f"{name}.log")
    found = from_lines(reader.telling, reader.progress.phase)
    assert found is not None
    assert found.certain


def test_only_a_fetch_may_pass_by_itself() -> None:
    transient = []
    for name in EXPECTED:
        reader = read(CASES / f"{name}.log")
        found = from_lines(reader.telling, reader.progress.phase)
        if found is not None and found.transient:
            transient.append(name)
    assert transient == ["fetch-429"]


@pytest.mark.parametrize(
    ("phase", "failure"),
    [
        ("load weights", Failure.OOM_LOAD),
        ("allocate KV cache", Failure.KV_TOO_SMALL),
        ("capture graphs", Failure.OOM_CAPTURE),
        ("serving", Failure.OOM_RUN),
    ],
)
def test_the_same_words_mean_what_the_phase_says(phase: str, failure: Failure) -> None:
    line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    assert diagnose([line], phase, -9).failure is failure


def test_a_capture_that_fails_for_want_of_memory_says_so() -> None:
    said = "Exception: Capture cuda graph failed: "
    assert diagnose([said + "CUDA out of memory. Tried"], "capture graphs", -9).failure is Failure.OOM_CAPTURE
    assert diagnose([said + "illegal memory access"], "capture graphs", -9).failure is Failure.CAPTURE_FAILED


@pytest.mark.parametrize(
    ("progress", "failure"),
    [
        (Progress("capture graphs", "4% 1/23"), Failure.CAPTURE_HANG),
        (Progress("init distributed", ""), Failure.NCCL_HANG),
        (Progress("capture graphs", "", "flashinfer.jit: Loading JIT ops: cascade"), Failure.JIT_TIMEOUT),
        (Progress("load weights", "3% 1/31"), Failure.READY_TIMEOUT),
        (Progress("serving", ""), Failure.SERVER_STALLED),
    ],
)
def test_what_silence_is_called(progress: Progress, failure: Failure) -> None:
    assert of_silence(progress) is failure


def test_a_capture_that_is_stuck_says_nothing_itself() -> None:
    reader = read(CASES / "capture-hang.log")
    assert from_lines(reader.telling, reader.progress.phase) is None
    assert reader.progress == Progress("capture graphs", "4% 1/23 bs=152")
    assert of_silence(reader.progress) is Failure.CAPTURE_HANG


@pytest.mark.parametrize(
    ("exit_code", "failure", "words"),
    [
        (2, Failure.BAD_ARGS, ", exit code 2: the log is empty"),
        (-9, Failure.SERVER_CRASHED, ", exit code -9 (SIGKILL): the log is empty"),
        (137, Failure.SERVER_CRASHED, ", exit code 137 (SIGKILL): the log is empty"),
        (-11, Failure.SERVER_CRASHED, ", exit code -11 (SIGSEGV): the log is empty"),
        (None, Failure.SERVER_CRASHED, ": the log is empty"),
    ],
)
def test_without_words_the_exit_code_is_the_evidence(exit_code: int | None, failure: Failure, words: str) -> None:
    found = diagnose([], "load weights", exit_code)
    assert found.failure is failure
    assert found.evidence == f"in phase 'load weights'{words}"


def test_a_traceback_that_was_survived_decides_only_for_a_dead_server() -> None:
    lines = [
        "[2026-11-29 12:00:01] The server is fired up and ready to roll!",
        "[2026-11-29 12:00:02] could not write the metrics",
        "Traceback (most recent call last):",
        "RuntimeError: out of pens",
    ]
    assert from_lines(lines, "serving") is None
    assert diagnose(lines, "serving", 1).evidence == "in phase 'serving', exit code 1: RuntimeError: out of pens"


def test_the_parents_last_words_are_never_the_cause() -> None:
    lines = ["[2026-11-29 12:00:02] Received sigquit from a child process. It usually means the child failed."]
    assert from_lines(lines, "load weights") is None


MESSAGES = sorted(
    {
        line.encode()
        for path in HEALTHY
        for line in all_lines(path)
        if line.startswith("[20")
        and "Traceback" not in line
        and phase_begun(line) is None
        and not any(words in line for words in ("SIGTERM", "server_args=", "ASGI"))
    }
)
"""Log messages of healthy servers that begin no phase and end none."""


@settings(deadline=None)
@given(
    st.sampled_from(sorted(set(EXPECTED) - {"jit-timeout"})),
    st.lists(st.tuples(st.sampled_from(MESSAGES), st.floats(0, 1)), max_size=60),
)
def test_harmless_messages_among_the_others_change_nothing(name: str, harmless: list[tuple[bytes, float]]) -> None:
    data = (CASES / f"{name}.log").read_bytes()
    messages = [b"[20" + message for message in (b"\n" + data).split(b"\n[20")]
    messages[0] = messages[0].removeprefix(b"[20").removeprefix(b"\n")
    for message, place in harmless:
        messages.insert(int(place * len(messages)) + (not messages[0].startswith(b"[20")), message)
    text = fed(b"\n".join(messages))
    found = from_lines(text.telling, text.progress.phase)
    assert found is not None
    assert found.failure is EXPECTED[name][0]
    assert EXPECTED[name][1] in found.evidence
