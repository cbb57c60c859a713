"""Real SGLang logs, and streams that are no clean text, read as they grow."""

from __future__ import annotations

import tempfile
import tracemalloc
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddqueue.engine.diagnosis import diagnose, from_lines
from ddqueue.engine.engine_warnings import notable
from ddqueue.engine.logs import PHASES, LogReader, LogText
from ddqueue.engine.phases import BEFORE_FIRST

LOGS = Path(__file__).parents[1] / "data" / "logs"
RELEASE = LOGS / "sglang-0.5.15"
ALL_LOGS = sorted(LOGS.rglob("*.log"))


def read(path: Path) -> LogReader:
    reader = LogReader(path)
    reader.read()
    return reader


def text_of(*pieces: bytes) -> LogText:
    text = LogText()
    for piece in pieces:
        text.feed(piece)
    return text


@pytest.mark.parametrize("name", ["df8", "df16", "topk", "win", "base"])
def test_a_healthy_start_reaches_serving(name: str) -> None:
    assert read(RELEASE / f"{name}.log").progress.phase == "serving"


@pytest.mark.parametrize(
    ("name", "phase"),
    [("oom", "allocate KV cache"), ("tp8", "init distributed"), ("pp", "start process"), ("badflag", "start process")],
)
def test_the_last_phase_of_a_failed_start(name: str, phase: str) -> None:
    assert read(RELEASE / f"{name}.log").progress.phase == phase


def test_phases_carry_the_times_that_the_log_says() -> None:
    reader = read(RELEASE / "df16.log")
    assert [begin.phase for begin in reader.phases] == [BEFORE_FIRST, *(name for name, _ in PHASES)]
    assert reader.phases[0].at == datetime(2026, 11, 29, 11, 47, 29)
    assert reader.phases[-1].at == datetime(2026, 11, 29, 11, 48, 8)
    assert reader.last_at == datetime(2026, 11, 29, 11, 48, 20)


@pytest.mark.parametrize("name", ["tp2-df8", "ep2-moe-df8", "rank-killed"])
def test_two_ranks_in_one_log_are_one_start(name: str) -> None:
    reader = read(LOGS / "h200-two-gpus" / f"{name}.log")
    assert [begin.phase for begin in reader.phases] == [BEFORE_FIRST, *(name for name, _ in PHASES)]
    assert len(reader.notable) == len(set(reader.notable)), "both ranks say it, it is kept once"


def test_what_a_server_says_of_its_own_end() -> None:
    assert read(LOGS / "h200-two-gpus" / "rank-killed.log").announced_end
    assert read(RELEASE / "crash.log").announced_end
    for name in ("h200-two-gpus/tp2-df8", "h200-two-gpus/ep2-moe-df8", "h200-trained/tdf8", "sglang-0.5.15/base"):
        assert not read(LOGS / f"{name}.log").announced_end, name


@pytest.mark.parametrize(
    ("until", "phase", "words"),
    [
        (b"  0% Completed | 0/1", "load weights", "0% 0/1"),
        (b"100% Completed | 1/1", "load weights", "100% 1/1"),
        (b"| 0/20", "capture graphs", "0% 0/20"),
        (b"| 1/20", "capture graphs", "5% 1/20 bs=32"),
    ],
)
def test_progress_of_loading_and_capture_in_a_real_log(until: bytes, phase: str, words: str) -> None:
    data = (LOGS / "h200-trained" / "tree8.log").read_bytes()
    progress = text_of(data[: data.index(until) + len(until)]).progress
    assert (progress.phase, progress.text) == (phase, words)


def test_the_first_step_of_a_capture_is_a_compiler_at_work() -> None:
    data = (LOGS / "h200-trained" / "tree8.log").read_bytes()
    text = LogText()
    text.feed(data[: data.index(b"| 0/20") + 6])
    assert text.compiling
    text.feed(data[data.index(b"| 0/20") + 6 : data.index(b"| 1/20") + 6])
    assert not text.compiling


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("[2026-11-29 12:00:01 TP0] Entering DeepGEMM JIT Pre-Compile session.", "DeepGEMM warmup: 100%|##| 4/4 "),
        (
            "2026-11-29 12:00:01,039 - INFO - flashinfer.jit: Loading JIT ops: cascade",
            "Finished loading JIT ops: cascade",
        ),
        ("[3/12] /usr/local/cuda/bin/nvcc -o cascade.o cascade.cu", "[2026-11-29 12:00:09] Load weight begin."),
    ],
)
def test_a_compiler_that_says_so(line: str, after: str) -> None:
    text = text_of(line.encode() + b"\n")
    assert text.compiling
    assert text.progress.compiler == line
    text.feed(after.encode() + b"\n")
    assert not text.compiling


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
        log.write(bar[20:] + b"Capturing batches: 50%|#####| 10/20 [00:02<00:43]\r\xff\0\n")
    assert reader.read()
    assert reader.progress.phase == "capture graphs"
    assert reader.progress.text == "50% 10/20"
    assert reader.tail[0] == "Load weight begin. avail mem=139 GB"
    assert reader.tail[-1] == "\N{REPLACEMENT CHARACTER}" * 2
    assert sum("Capturing batches" in line for line in reader.tail) == 1


def test_an_escape_code_and_a_character_may_be_split_between_two_reads() -> None:
    data = "\x1b[1;32mLoad weight begin.\x1b[0m ▌\n".encode()
    for cut in range(len(data)):
        assert text_of(data[:cut], data[cut:]).tail == ["Load weight begin. ▌"]


def test_a_message_behind_an_unfinished_bar_is_a_line_of_its_own() -> None:
    bar = b"Capturing batches (bs=512 avail_mem=3.10 GB):   0%|          | 0/52 [00:04<?, ?it/s]"
    text = text_of(bar + b"[2026-11-29 12:00:01] INFO:     Uvicorn running on http://127.0.0.1:1 (Press)\n")
    assert text.progress.phase == "warm up"


def test_what_a_server_prints_before_it_is_ready_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"noise of a library\n" * 11_000 + b"[2026-11-29 12:00:01] Load weight begin.\n")
    assert path.stat().st_size > 200 * 1024
    reader = read(path)
    assert reader.progress.phase == "load weights"
    assert not reader.read()
    with path.open("ab") as log:
        log.write(b"[2026-11-29 12:00:02] Load weight end.\n")
    assert reader.read()
    assert reader.progress.phase == "allocate KV cache"


def test_a_log_that_was_cut_back_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"first\nsecond\n")
    reader = read(path)
    path.write_bytes(b"third\n")
    assert reader.read()
    assert reader.tail == ["first", "second", "third"]


def test_a_line_of_100_mb_and_many_bars_take_little_memory() -> None:
    text = LogText()
    tracemalloc.start()
    for _ in range(1600):
        text.feed(b"x" * 65_536)
    text.feed(b"\n")
    for step in range(2000):
        text.feed(b"\rCapturing batches:  %d%%|          | %d/2000 [00:00<?, ?it/s]" % (step // 20, step))
    text.feed(b"\n" + b"[2026-11-29 12:00:01] a message\n" * 2000)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 8 * 2**20
    assert max(map(len, text.telling)) <= 4000
    assert len(text.telling) < 1500
    assert text.telling_lines[-1].number == 2002


def test_the_cause_is_kept_however_much_is_printed_behind_it() -> None:
    data = (RELEASE / "oom.log").read_bytes()
    text = text_of(data, b"[2026-11-29 12:00:01] still printing\n" * 5000)
    found = from_lines(text.telling, text.progress.phase)
    assert found is not None
    assert found.index is not None
    assert "leave no GPU memory" in found.evidence
    deciding = text.telling_lines[found.index]
    assert deciding.text.strip() == found.evidence
    assert data.decode().split("\n")[deciding.number - 1] == deciding.text
    assert not any("leave no GPU memory" in line for line in text.tail)


def test_the_engines_own_warnings_are_kept_once_each() -> None:
    reader = read(RELEASE / "topk.log")
    assert [warning for warning in reader.notable if warning.startswith(("DFLASH", "Max"))] == [
        "DFLASH only supports speculative_num_steps == 1; overriding speculative_num_steps=7 to 1.",
        "DFLASH only supports speculative_eagle_topk == 1; overriding speculative_eagle_topk=4 to 1.",
        "Max running requests is reset to 48 for speculative decoding. You can override this by explicitly setting"
        " --max-running-requests.",
    ]
    mismatch = "DFLASH block size mismatch: using speculative_num_draft_tokens=16 but draft config block_size=8."
    assert mismatch in read(RELEASE / "df16.log").notable
    assert notable(f"[2026-11-29 11:48:0{rank} TP{rank}] {mismatch}" for rank in range(8)) == [mismatch]


def test_warnings_that_are_not_about_settings_are_not_kept() -> None:
    lines = [line for log in ALL_LOGS for line in read(log).telling]
    kept = notable(lines)
    assert not [
        line for line in kept if "Error" in line or "Endpoint" in line or "import" in line or "server_args" in line
    ]
    assert len(kept) < 20


def test_no_more_warnings_are_kept_than_somebody_would_read() -> None:
    assert len(notable(f"[2026-11-29 11:48:00] x={n} is forced" for n in range(1000))) == 50


FRAGMENTS = st.sampled_from(
    [
        b"Traceback (most recent call last):\n",
        b"[2026-11-29 12:00:01 TP3] ",
        b"[2026-99-99 99:99:99] ",
        b"Scheduler hit an exception: ",
        b"ValueError: ",
        b"Load weight begin.\n",
        b"Capture x CUDA graph begin\n",
        b"10%|#| 1/10 [00:00<?, ?it/s]",
        b"server_args=ServerArgs(port=1)\n",
        b"Uvicorn running on http://h:2\n",
        b"\r",
        b"\n",
        b"\x1b[3",
        b"2m",
        b"\xe2\x96",
        b"\x88",
        b"\0",
    ]
)
SOUP = st.lists(st.one_of(st.binary(max_size=30), FRAGMENTS), max_size=60).map(b"".join)


@given(st.one_of(st.binary(max_size=2000), SOUP), st.integers(-64, 255))
def test_no_bytes_make_it_raise(data: bytes, exit_code: int) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        reader = read(Path(file.name))
    found = diagnose(reader.telling, reader.progress.phase, exit_code)
    assert found.evidence
    assert found.index is None or found.evidence.endswith(reader.telling_lines[found.index].text.strip())
    assert reader.progress.phase in {BEFORE_FIRST, *(name for name, _ in PHASES)}
    assert all(line.isprintable() or "\t" in line or not line.isascii() for line in reader.tail)


@given(st.sampled_from(ALL_LOGS), st.binary(max_size=40), st.lists(st.floats(0, 1), max_size=8))
def test_how_a_stream_is_cut_changes_nothing(path: Path, end: bytes, cuts: list[float]) -> None:
    data = path.read_bytes() + end
    whole = text_of(data)
    places = [0, *sorted(int(cut * len(data)) for cut in cuts), len(data)]
    pieces = text_of(*(data[start:stop] for start, stop in pairwise(places)))
    assert pieces.telling_lines == whole.telling_lines
    assert pieces.tail == whole.tail
    assert pieces.progress == whole.progress
    assert pieces.phases == whole.phases
    assert pieces.notable == whole.notable
