"""Real SGLang logs, read as they grow, and explained."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddqueue.domain.failures import Failure
from ddqueue.engine.diagnosis import diagnose
from ddqueue.engine.logs import PHASES, LogReader

LOGS = Path(__file__).parents[1] / "data" / "logs"


def read(path: Path) -> LogReader:
    reader = LogReader(path)
    reader.read()
    return reader


@pytest.mark.parametrize("name", ["df8", "df16", "topk", "win", "base"])
def test_a_healthy_start_reaches_serving(name: str) -> None:
    assert read(LOGS / "sglang-0.5.15" / f"{name}.log").progress.phase == "serving"


@pytest.mark.parametrize(
    ("name", "phase"),
    [("oom", "allocate KV cache"), ("tp8", "init distributed"), ("pp", "start process"), ("badflag", "start process")],
)
def test_the_last_phase_of_a_failed_start(name: str, phase: str) -> None:
    assert read(LOGS / "sglang-0.5.15" / f"{name}.log").progress.phase == phase


@pytest.mark.parametrize(
    ("name", "exit_code", "failure", "words"),
    [
        ("badflag", 2, Failure.BAD_ARGS, "unrecognized arguments"),
        ("pp", 1, Failure.UNSUPPORTED, "only supports pp_size == 1"),
        ("nodraft", 1, Failure.MODEL_NOT_FOUND, "Repo id must"),
        ("oom", -9, Failure.KV_TOO_SMALL, "leave no GPU memory for the KV cache"),
        ("tp8", -9, Failure.UNSUPPORTED, "invalid device ordinal"),
        ("crash", -9, Failure.SERVER_CRASHED, "scheduler_0 (pid=1063) crashed"),
    ],
)
def test_why_a_real_server_died(name: str, exit_code: int, failure: Failure, words: str) -> None:
    reader = read(LOGS / "sglang-0.5.15" / f"{name}.log")
    found = diagnose(reader.tail, reader.progress.phase, exit_code)
    assert found.failure is failure
    assert words in found.evidence


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


def test_lines_from_a_stream_that_is_no_clean_text(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    reader = LogReader(path)
    assert not reader.read()
    bar = "Capturing batches: 5%|▌| 1/20 [00:02<00:43]\r".encode()
    with path.open("wb") as log:
        log.write(b"\x1b[32mLoad weight begin.\x1b[0m avail mem=139 GB\n")
        log.write(b"Capture target verify CUDA graph begin. bs=[1]\n" + bar[:20])
        log.flush()
        assert reader.read()
        log.write(bar[20:] + b"Capturing batches: 50%|#####| 10/20 [00:02<00:43]\r\xff\n")
    assert reader.read()
    assert reader.progress.phase == "capture graphs"
    assert reader.progress.text == "50% 10/20"
    assert reader.tail[0] == "Load weight begin. avail mem=139 GB"
    assert "\N{REPLACEMENT CHARACTER}" in reader.tail[-1]
    assert sum("Capturing batches" in line for line in reader.tail) == 1


@given(st.binary(max_size=2000))
def test_no_bytes_make_it_raise(data: bytes) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        reader = read(Path(file.name))
        found = diagnose(reader.tail, reader.progress.phase, 1)
    assert found.failure in Failure
    assert reader.progress.phase in {"start process", *(name for name, _ in PHASES)}
