"""`ddqueue measure` against a running server, without a database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sim_server import DDTREE, running


def measure(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DDQUEUE_")}
    return subprocess.run(
        [sys.executable, "-m", "ddqueue", "measure", *arguments],
        env=environment,
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
    assert "(simulated)" in table.stdout
    assert table.stdout.count("valid") == 2
    assert "95% interval" in table.stdout


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
    assert (refused.returncode, refused.stdout) == (code, "")
    assert words in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_server_that_answers_short_gives_no_valid_number(tmp_path: Path) -> None:
    with running(tmp_path, *DDTREE, "--sim-fault", "short") as server:
        server.wait_ready()
        done = measure(f"http://127.0.0.1:{server.port}", "--output", "64", "--repeats", "1")
    assert done.returncode == 1
    assert "SHORT_OUTPUT" in done.stdout
