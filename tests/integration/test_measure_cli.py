"""`ddqueue measure` against a running server, without a database."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sim_server import DDTREE, generation, running, wait_until

COMMAND = [sys.executable, "-m", "ddqueue", "measure"]
LONG = ("--context-length", "300000")
KNOWN_TIMING = Path(__file__).parents[1] / "known_timing_server.py"


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("DDQUEUE_")}


def measure(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_one_point_of_a_server_that_speculates(tmp_path: Path) -> None:
    with running(tmp_path, *DDTREE, "--weight-version", "somebody-elses") as server:
        server.wait_ready()
        url = f"http://127.0.0.1:{server.port}"
        asked = ("--concurrency", "4", "--context", "60", "--output", "24", "--repeats", "2")
        done = measure(url, *asked, "--json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        table = measure(url, *asked)
    assert document["simulated"] is True
    assert [row["repeat"] for row in document["measurements"]] == [1, 2]
    for row in document["measurements"]:
        assert row["valid"], row["reasons"]
        assert (row["requests_completed"], row["output_tokens"], row["prompt_tokens"]) == (4, 96, 240)
        assert row["output_throughput_tok_s"] == pytest.approx(96 / row["wall_s"])
        assert row["acceptance_length"] > 1
        assert row["cached_share"] == 0
        for spread in ("ttft_ms", "itl_ms", "tpot_ms", "e2e_ms"):
            assert 0 < row[spread]["p50"] <= row[spread]["p90"] <= row[spread]["p99"]
        assert row["step_time_ms"] > 0
        assert sum(row["draft_histogram"]) == row["verifies"]
        assert {"in_flight_mean", "loop_lag_max_ms", "cpu_s", "peak_rss_mib"} <= row["client"].keys()
        assert (row["client_trouble"], row["errors"]) == (None, [])
    assert "(simulated)" in table.stdout
    shown = {line.partition("  ")[0]: line for line in table.stdout.splitlines()}
    assert shown["verdict"].split() == ["verdict", "valid", "valid"]
    assert shown["prompt from cache"].split()[-2:] == ["0.0%", "0.0%"]
    for row in ("output tok/s", "TTFT ms, p50 / p90 / p99", "ITL ms a token", "TPOT ms", "end to end ms"):
        assert "-" not in shown[row].split()
    assert shown["requests done, failed"].split()[-4:] == ["4,", "0", "4,", "0"]
    assert "95% interval" in table.stdout


def test_goodput_is_between_nothing_and_the_throughput(tmp_path: Path) -> None:
    asked = ("--concurrency", "4", "--context", "60", "--output", "24", "--repeats", "1", "--json")
    with running(tmp_path, *DDTREE) as server:
        server.wait_ready()
        url = f"http://127.0.0.1:{server.port}"
        easy, hard = (
            json.loads(measure(url, *asked, "--goodput-ttft-ms", ttft_ms, "--goodput-tpot-ms", "1e6").stdout)
            for ttft_ms in ("1e6", "1e-3")
        )
        shown = measure(url, *asked[:-1], "--goodput-tpot-ms", "1e6").stdout
    assert easy["goodput_limits"] == {"ttft_ms": 1e6, "tpot_ms": 1e6, "e2e_ms": None}
    (row,), (late,) = easy["measurements"], hard["measurements"]
    assert row["goodput_requests_s"] == pytest.approx(4 / row["wall_s"])
    assert row["goodput_output_tok_s"] == pytest.approx(row["output_throughput_tok_s"])
    assert (late["goodput_requests_s"], late["goodput_output_tok_s"]) == (0, 0)
    assert "goodput requests/s, TPOT ≤ 1e+06 ms" in shown


def test_a_limit_of_nothing_is_refused() -> None:
    refused = measure("http://127.0.0.1:1", "--goodput-ttft-ms", "0")
    assert refused.returncode == 2
    assert "--goodput-ttft-ms" in refused.stderr


def test_a_baseline_has_no_acceptance(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        server.wait_ready()
        done = measure(f"http://127.0.0.1:{server.port}", "--output", "8", "--repeats", "1", "--json")
    (row,) = json.loads(done.stdout)["measurements"]
    assert row["acceptance_length"] is None
    assert row["step_time_ms"] > 0


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [("http://127.0.0.1:1", 3, "does not answer"), ("ftp://x", 2, "ftp://x"), ("nonsense", 2, "nonsense")],
)
def test_what_is_no_server(url: str, code: int, words: str) -> None:
    refused = measure(url)
    assert refused.returncode == code
    assert words in one_line(refused)


def test_a_server_of_another_kind() -> None:
    with subprocess.Popen(
        [sys.executable, str(KNOWN_TIMING)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        refused = measure(f"http://127.0.0.1:{other.stdout.readline().split()[1]}")
        other.kill()
    assert refused.returncode == 1
    assert "is no SGLang, or not ready: GET /server_info gave no configuration" in one_line(refused)


def test_a_server_that_does_not_speak_http() -> None:
    with greeter(b"220 mail.example ESMTP\r\n") as port:
        refused = measure(f"http://127.0.0.1:{port}")
    assert refused.returncode == 3
    assert "does not answer: BadStatusLine" in one_line(refused)


def test_an_interrupt_is_one_line_and_leaves_no_client(tmp_path: Path) -> None:
    with running(tmp_path, *DDTREE, *LONG) as server:
        server.wait_ready()
        process = subprocess.Popen(
            [*COMMAND, f"http://127.0.0.1:{server.port}", "--output", "100000"],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        # Once the window of the warm-up is over: the long one, or the flush before it.
        wait_until(lambda: "Cache flushed" in server.log, "the warm-up did not end")
        clients = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        # A terminal's ^C reaches the whole group.
        os.killpg(process.pid, signal.SIGINT)
        out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert said.startswith("ddqueue: interrupted")
    assert said.count("\n") == 1
    assert len(clients) == 1
    assert not Path(f"/proc/{clients[0]}").exists()


def test_a_busy_server_is_waited_for_before_its_cache_is_emptied(tmp_path: Path) -> None:
    with running(tmp_path, *DDTREE, *LONG) as server:
        server.wait_ready()
        others = http.client.HTTPConnection("127.0.0.1", server.port)
        others.request("POST", "/generate", json.dumps(generation(100_000, stream=True)))
        streaming = others.getresponse()
        assert streaming.status == 200
        process = subprocess.Popen(
            [*COMMAND, f"http://127.0.0.1:{server.port}", "--output", "8", "--repeats", "1", "--json"],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: "Cache not flushed" in server.log, "no flush was refused")
        streaming.close()
        others.close()
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert [row["valid"] for row in json.loads(out)["measurements"]] == [True]


def test_a_server_that_answers_short_gives_no_valid_number(tmp_path: Path) -> None:
    with running(tmp_path, *DDTREE, "--sim-fault", "short") as server:
        server.wait_ready()
        done = measure(f"http://127.0.0.1:{server.port}", "--output", "64", "--repeats", "1")
    assert done.returncode == 1
    assert "repeat 1 is not valid: SHORT_OUTPUT: 1 of 1 answers ended early, of 64 tokens with " in done.stdout


def test_the_reasons_say_what_was_seen(tmp_path: Path) -> None:
    with running(tmp_path, "--sim-fault", "wrong-tag") as server:
        server.wait_ready()
        done = measure(f"http://127.0.0.1:{server.port}", "--output", "8", "--repeats", "2")
    assert done.returncode == 1
    for repeat in (1, 2):
        assert f"repeat {repeat} is not valid: WRONG_SERVER: answers carried another weight_version" in done.stdout


def one_line(refused: subprocess.CompletedProcess[str]) -> str:
    """What a command that refused said: one line, and nothing on standard output."""
    assert refused.stdout == ""
    assert refused.stderr.count("\n") == 1
    assert refused.stderr.startswith("ddqueue: ")
    return refused.stderr


@contextmanager
def greeter(greeting: bytes) -> Iterator[int]:
    """A port where everyone is greeted with these bytes, whatever they say."""

    def greet() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client:
                client.recv(65536)
                client.sendall(greeting)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=greet)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()
