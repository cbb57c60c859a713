"""Faults that a running simulated server shows to its clients."""

from __future__ import annotations

import http.client
import json
import signal
import threading
from pathlib import Path

import pytest
from sim_server import DDTREE, SimServer, generation, running, wait_until


def in_background(server: SimServer, count: int, tokens: int) -> list[threading.Thread]:
    """`count` long requests at once, whose ends do not matter."""

    def ask() -> None:
        try:
            server.generate(tokens)
        except (OSError, http.client.HTTPException):
            return

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_out_of_memory_and_crashes_wait_for_load(tmp_path: Path) -> None:
    for fault, words in (
        ("oom@run", "RuntimeError: Prefill out of memory. Try to lower your batch size."),
        ("crash@serving=3", "crashed with exit code -9. Triggering SIGQUIT"),
    ):
        with running(tmp_path, "--sim-fault", fault) as server:
            server.wait_ready()
            assert server.generate(40)["meta_info"]["completion_tokens"] == 40
            threads = in_background(server, 3, 20_000)
            assert server.wait_exit() == -signal.SIGKILL
            assert words in server.log
            for thread in threads:
                thread.join()


def test_a_stalled_server_is_alive_and_says_nothing(tmp_path: Path) -> None:
    with running(tmp_path, "--sim-fault", "stall") as server:
        server.wait_ready()
        assert server.generate(40)["meta_info"]["completion_tokens"] == 40
        threads = in_background(server, 2, 1000)
        wait_until(lambda: server.ask("GET", "/health")[0] == 503, "the server did not stall")
        assert server.ask("POST", "/flush_cache")[0] == 400
        assert server.process.poll() is None
        server.process.kill()
        for thread in threads:
            thread.join()


def test_one_of_several_streams_falls_silent(tmp_path: Path) -> None:
    with running(tmp_path, "--sim-fault", "stall@one=3") as server:
        server.wait_ready()
        done: list[int] = []

        def ask() -> None:
            try:
                done.append(server.generate(200)["meta_info"]["completion_tokens"])
            except (OSError, http.client.HTTPException):
                return

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(done) == 2, "the other streams did not finish")
        assert done == [200, 200]
        assert server.ask("GET", "/health")[0] == 200
        assert sum(thread.is_alive() for thread in threads) == 1
        server.process.kill()
        for thread in threads:
            thread.join()


def test_answers_that_are_too_short(tmp_path: Path) -> None:
    with running(tmp_path, "--sim-fault", "short") as server:
        server.wait_ready()
        assert server.generate(16)["meta_info"]["completion_tokens"] == 16
        meta = server.generate(100)["meta_info"]
        assert (meta["completion_tokens"], meta["finish_reason"]["type"]) == (50, "stop")


def test_an_error_inside_a_stream_that_ends_as_if_all_were_well(tmp_path: Path) -> None:
    with running(tmp_path, "--sim-fault", "error-midstream") as server:
        server.wait_ready()
        events = server.events("/generate", generation(64))
        assert events[-1] == b"[DONE]"
        assert "error" in json.loads(events[-2])
        assert json.loads(events[-3])["meta_info"]["completion_tokens"] < 32


def test_a_chunk_that_is_no_json(tmp_path: Path) -> None:
    with running(tmp_path, "--sim-fault", "garbage@stream") as server:
        server.wait_ready()
        events = server.events("/generate", generation(64))
        with pytest.raises(UnicodeDecodeError):
            events[-2].decode()


def test_a_log_with_bytes_that_are_no_text(tmp_path: Path) -> None:
    with running(tmp_path, "--sim-fault", "garbage@log") as server:
        server.wait_ready()
        log = server.log_path.read_bytes()
        assert b"\x1b[31m\xff\xfe\x1b[0m" in log
        with pytest.raises(UnicodeDecodeError):
            log.decode()


def test_answers_with_somebody_elses_tag(tmp_path: Path) -> None:
    with running(tmp_path, "--weight-version", "mine", "--sim-fault", "wrong-tag=yours") as server:
        server.wait_ready()
        assert server.generate(4)["meta_info"]["weight_version"] == "yours"
        assert server.json("GET", "/server_info")["weight_version"] == "mine"


def test_a_setting_that_was_silently_changed(tmp_path: Path) -> None:
    with running(tmp_path, *DDTREE, "--sim-fault", "wrong-setting@speculative_ddtree_budget=4") as server:
        server.wait_ready()
        info = server.json("GET", "/server_info")
        assert info["speculative_ddtree_budget"] == 4
        assert info["internal_states"][0]["max_speculative_num_draft_tokens"] == 5
