"""Real simulated servers: how they start, fail, misbehave and end. Nothing here is decided by how long it took."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sim_server import DDTREE, generation, running, wait_until

from ddqueue.processes import is_alive, start_ticks
from ddqueue.sim.gpus import NEVER_S, SimulatedGpus

READY = "The server is fired up and ready to roll!"


@pytest.fixture
def gpus(tmp_path: Path) -> SimulatedGpus:
    return SimulatedGpus.create(tmp_path / "gpus", 2, "Simulated GPU", 10_000, release_lag_s=NEVER_S)


@pytest.fixture
def on_gpus(tmp_path: Path, gpus: SimulatedGpus) -> dict[str, str]:
    return {"DDQUEUE_SIM_GPUS": str(tmp_path / "gpus")}


def used_mib(gpus: SimulatedGpus) -> list[int]:
    return [reading.memory_used_mib for reading in gpus.read()]


def ended(pid: int, ticks: int | None) -> bool:
    return ticks is None or not is_alive(pid, ticks)


def test_terminated_it_drains_and_ends_by_its_own_kill(
    tmp_path: Path, gpus: SimulatedGpus, on_gpus: dict[str, str]
) -> None:
    with running(tmp_path, "--tp-size", "2", environment=on_gpus) as server:
        server.wait_ready()
        child = server.scheduler_pid()
        ticks = start_ticks(child)
        assert Path(f"/proc/{child}/cmdline").read_bytes().rstrip(b"\0") == b"sglang::scheduler"
        assert [reading.pids for reading in gpus.read()] == [(child,), (child,)]
        assert used_mib(gpus) == [8700, 8700]
        server.process.send_signal(signal.SIGTERM)
        assert server.wait_exit() == -signal.SIGKILL
        assert "SIGTERM received." in server.log
        assert "Remaining number of requests 0." in server.log
        wait_until(lambda: ended(child, ticks), "the scheduler outlived the server")
    assert [reading.pids for reading in gpus.read()] == [(), ()]
    assert used_mib(gpus) == [8700, 8700], "memory comes back later than the processes end"


def test_terminated_under_load_it_finishes_the_answers_first(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        server.wait_ready()
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            body = json.dumps(generation(100, stream=True)).encode()
            head = f"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            connection.sendall(head + body)
            received = connection.recv(100)
            server.process.send_signal(signal.SIGTERM)
            while data := connection.recv(65536):
                received += data
        assert b"data: [DONE]" in received
        assert b'"completion_tokens":100' in received
        assert server.wait_exit() == -signal.SIGKILL


def test_terminated_before_the_port_is_bound_it_just_dies(tmp_path: Path) -> None:
    with running(tmp_path, "--sim-fault", "hang@capture") as server:
        wait_until(lambda: "Capturing batches" in server.log, "capture did not begin")
        server.process.send_signal(signal.SIGTERM)
        assert server.wait_exit() == -signal.SIGTERM


def test_when_the_parent_is_killed_the_child_dies_and_memory_comes_back_late(
    tmp_path: Path, gpus: SimulatedGpus, on_gpus: dict[str, str]
) -> None:
    with running(tmp_path, environment=on_gpus) as server:
        server.wait_ready()
        child = server.scheduler_pid()
        ticks = start_ticks(child)
        server.process.kill()
        wait_until(lambda: ended(child, ticks), "the scheduler outlived its parent")
        assert used_mib(gpus) == [8700, 0]
    SimulatedGpus.create(tmp_path / "gpus", 2, "Simulated GPU", 10_000, release_lag_s=0.0)
    wait_until(lambda: used_mib(gpus) == [0, 0], "the memory never came back")


def test_a_killed_scheduler_ends_the_server_in_its_own_words(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        server.wait_ready()
        child = server.scheduler_pid()
        os.kill(child, signal.SIGKILL)
        assert server.wait_exit() == -signal.SIGKILL
        assert (
            f"Subprocess scheduler_0 (pid={child}) crashed with exit code -9. Triggering SIGQUIT for cleanup..."
            in server.log
        )


def test_a_child_keeps_none_of_its_parents_files(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        process = subprocess.Popen(
            [sys.executable, "-m", "ddqueue.sim.server", "--model-path", "/m", "--sim-fault", "hang@init"],
            pass_fds=(lock.fileno(),),
            stderr=subprocess.DEVNULL,
        )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        wait_until(lambda: children.read_text().split(), "no child appeared")
        child = int(children.read_text())
        title = Path(f"/proc/{child}/comm")
        wait_until(lambda: title.read_text().startswith("sglang::"), "the child did not get its title")
        assert str(tmp_path / "lock") in _open_files(process.pid)
        assert str(tmp_path / "lock") not in _open_files(child)
    finally:
        process.kill()
        process.wait()


def _open_files(pid: int) -> Iterator[str]:
    return (os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.parametrize(
    ("arguments", "code", "deciding"),
    [
        (["--speculative-ddtree", "8", "--nonsense"], 2, "sglang serve: error: unrecognized arguments: --nonsense"),
        (
            [*DDTREE, "--pp-size", "2"],
            1,
            "ValueError: Currently DDTREE speculative decoding only supports pp_size == 1.",
        ),
        ([*DDTREE, "--sim-fault", "not-found@draft"], 1, "OSError: Repo id must use alphanumeric chars"),
        (["--sim-fault", "oom@load"], -9, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"),
        (["--mem-fraction-static", "0.1"], -9, "leave no GPU memory for the KV cache under --mem-fraction-static=0.1"),
        (["--sim-fault", "oom@kv"], -9, "ValueError: Loaded weights leave no GPU memory for the KV cache"),
        (["--mem-fraction-static", "0.99"], -9, "Exception: Capture cuda graph failed: CUDA out of memory."),
        (["--sim-fault", "oom@capture"], -9, "Exception: Capture cuda graph failed: CUDA out of memory."),
        (["--sim-fault", "crash@load"], 1, "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9)"),
        (["--sim-fault", "crash@capture"], 1, "Rank 0 scheduler died during initialization (exit code: -9)"),
        (["--sim-fault", "crash@ready"], -9, "crashed with exit code -9. Triggering SIGQUIT for cleanup..."),
    ],
)
def test_a_start_that_fails_ends_with_the_real_code_and_words(
    tmp_path: Path, arguments: list[str], code: int, deciding: str
) -> None:
    with running(tmp_path, *arguments) as server:
        assert server.wait_exit() == code
        assert deciding in server.log
        assert READY not in server.log


def test_more_ranks_than_gpus(tmp_path: Path, on_gpus: dict[str, str]) -> None:
    with running(tmp_path, "--tp-size", "8", environment=on_gpus) as server:
        assert server.wait_exit() == -signal.SIGKILL
        assert "torch.AcceleratorError: CUDA error: invalid device ordinal" in server.log


def test_a_gpu_that_somebody_else_uses(tmp_path: Path, gpus: SimulatedGpus, on_gpus: dict[str, str]) -> None:
    with gpus.foreign(1, 5000), running(tmp_path, "--tp-size", "2", environment=on_gpus) as server:
        assert server.wait_exit() == -signal.SIGKILL
        assert "The memory capacity is unbalanced. Some GPUs may be occupied by other processes." in server.log


def test_gpus_that_are_full(tmp_path: Path, gpus: SimulatedGpus, on_gpus: dict[str, str]) -> None:
    with gpus.foreign(0, 9000), running(tmp_path, environment=on_gpus) as server:
        assert server.wait_exit() == -signal.SIGKILL
        assert "torch.OutOfMemoryError: CUDA out of memory." in server.log


@pytest.mark.parametrize("phase", ["init", "load", "kv", "capture"])
def test_a_hang_before_the_port_leaves_it_closed_and_everybody_alive(tmp_path: Path, phase: str) -> None:
    last_line = {
        "init": "Init torch distributed begin.",
        "load": "50% Completed",
        "kv": "Load weight end.",
        "capture": "%|",
    }
    with running(tmp_path, "--sim-fault", f"hang@{phase}") as server:
        wait_until(lambda: last_line[phase] in server.log, "the phase was not reached")
        with pytest.raises(ConnectionRefusedError):
            server.ask("GET", "/health")
        assert server.process.poll() is None
        assert is_alive(server.scheduler_pid(), start_ticks(server.scheduler_pid()) or 0)


def test_a_hang_in_the_warm_up_answers_503(tmp_path: Path) -> None:
    with running(tmp_path, "--sim-fault", "hang@ready") as server:
        wait_until(lambda: "Uvicorn running on" in server.log, "the port was not bound")
        assert server.ask("GET", "/health") == (503, b"")
        assert server.ask("GET", "/health_generate") == (503, b"")


def test_a_slow_capture_goes_on_and_ends(tmp_path: Path) -> None:
    with running(tmp_path, "--cuda-graph-max-bs", "2", "--sim-fault", "slow@capture=0.2") as server:
        server.wait_ready()
        assert re.search(r"Capturing batches \(bs=1 .*100%\|█{10}\| 2/2 ", server.log)


def test_a_busy_port_lets_the_new_server_take_the_old_one_for_itself(tmp_path: Path) -> None:
    with running(tmp_path) as old:
        old.wait_ready()
        with running(tmp_path, port=old.port) as new:
            assert new.wait_exit() == 3
            assert f"[Errno 98] error while attempting to bind on address ('127.0.0.1', {old.port})" in new.log
            assert READY in new.log
        assert old.ask("GET", "/health")[0] == 200


def test_a_port_held_by_something_else(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        running(tmp_path, port=listener.getsockname()[1]) as server,
    ):
        assert server.wait_exit() == 3
        assert "[Errno 98]" in server.log
        assert READY not in server.log


def test_memory_that_is_kept_after_the_end(tmp_path: Path, gpus: SimulatedGpus, on_gpus: dict[str, str]) -> None:
    SimulatedGpus.create(tmp_path / "gpus", 2, "Simulated GPU", 10_000, release_lag_s=0.0)
    with running(tmp_path, "--sim-fault", "memory-kept", environment=on_gpus) as server:
        server.wait_ready()
        child = server.scheduler_pid()
        ticks = start_ticks(child)
        server.process.kill()
        wait_until(lambda: ended(child, ticks), "the scheduler outlived its parent")
    assert [used_mib(gpus) for _ in range(3)] == [[8700, 0]] * 3
    gpus.forget_dead()
    assert used_mib(gpus) == [0, 0]


def test_a_client_that_goes_away_is_not_worked_for(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        server.wait_ready()
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            body = json.dumps(generation(30_000, stream=True)).encode()
            connection.sendall(
                f"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
            )
            assert connection.recv(10)
            assert server.ask("POST", "/flush_cache")[0] == 400
        assert server.ask("POST", "/flush_cache?timeout=60")[0] == 200


def test_an_abort_ends_a_stream_with_its_reason(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        server.wait_ready()
        answers: list[Any] = []
        thread = threading.Thread(
            target=lambda: answers.append(server.events("/generate", generation(30_000, rid="long-one")))
        )
        thread.start()
        wait_until(lambda: server.ask("POST", "/flush_cache")[0] == 400, "the request did not arrive")
        assert server.ask("POST", "/abort_request", {"rid": "long-one"}) == (200, b"")
        thread.join()
        assert answers[0][-1] == b"[DONE]"
        assert json.loads(answers[0][-2])["meta_info"]["finish_reason"]["type"] == "abort"


def test_answers_keep_the_order_of_their_lengths(tmp_path: Path) -> None:
    """In real time as in virtual time: of requests that decode together, the shorter answer ends first."""
    with running(tmp_path) as server:
        server.wait_ready()
        order: list[int] = []

        def ask(tokens: int) -> None:
            order.append(server.generate(tokens, f"prompt {tokens}")["meta_info"]["completion_tokens"])

        threads = [threading.Thread(target=ask, args=(tokens,)) for tokens in (300, 200, 100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert order == [100, 200, 300]
