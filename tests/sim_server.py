"""Starts real simulated servers for tests, and asks them."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEADLINE_S = 60.0
"""Far beyond what anything here takes: a limit for a test that would hang, never a measurement."""

DDTREE = (
    *("--speculative-algorithm", "DDTREE", "--speculative-draft-model-path", "/simulated/draft"),
    *("--speculative-num-draft-tokens", "8", "--speculative-ddtree-budget", "8"),
)


@dataclass
class SimServer:
    """One `python -m ddqueue.sim.server`, with its log."""

    process: subprocess.Popen[bytes]
    port: int
    log_path: Path

    @property
    def log(self) -> str:
        return self.log_path.read_bytes().decode("utf-8", "replace")

    def ask(self, method: str, path: str, payload: Any = None) -> tuple[int, bytes]:
        """One request; raises OSError when nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        try:
            connection.request(method, path, None if payload is None else json.dumps(payload))
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def json(self, method: str, path: str, payload: Any = None) -> Any:
        return json.loads(self.ask(method, path, payload)[1])

    def generate(self, tokens: int, prompt: Any = "hello", **more: Any) -> dict[str, Any]:
        """A forced answer of `tokens` tokens, not streamed."""
        answer: dict[str, Any] = self.json("POST", "/generate", generation(tokens, prompt, **more))
        return answer

    def events(self, path: str, payload: Mapping[str, Any]) -> list[bytes]:
        """The data of a stream's events."""
        body = self.ask("POST", path, {**payload, "stream": True})[1]
        return [event.removeprefix(b"data: ") for event in body.split(b"\n\n") if event]

    def wait_ready(self) -> None:
        """Wait for /health to answer 200."""
        wait_until(lambda: self._status() == 200, f"no server was ready; its log: {self.log}")

    def wait_exit(self) -> int:
        return self.process.wait(DEADLINE_S)

    def scheduler_pid(self) -> int:
        """The child's pid."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        assert len(children) == 1
        return int(children[0])

    def _status(self) -> int:
        assert self.process.poll() is None, f"the server ended: {self.log}"
        try:
            return self.ask("GET", "/health")[0]
        except OSError:
            return 0


def generation(tokens: int, prompt: Any = "hello", **more: Any) -> dict[str, Any]:
    """The body of a /generate request with a forced length; `prompt` is text or a list of ids."""
    key = "text" if isinstance(prompt, str) else "input_ids"
    return {key: prompt, "sampling_params": {"max_new_tokens": tokens, "ignore_eos": True}, **more}


@contextmanager
def running(
    folder: Path, *arguments: str, port: int | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[SimServer]:
    """A server that starts at once; killed at the end, if it still runs."""
    port = free_port() if port is None else port
    log_path = folder / f"server-{port}-{time.monotonic_ns()}.log"
    with log_path.open("wb") as log:
        command = [sys.executable, "-m", "ddqueue.sim.server", "--model-path", "/simulated/target"]
        process = subprocess.Popen(
            [*command, "--port", str(port), "--sim-startup-s", "0", *arguments],
            stdout=log,
            stderr=log,
            env={**os.environ, "DDQUEUE_SIM_BOX": "nvlink", **(environment or {})},
        )
    try:
        yield SimServer(process, port, log_path)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Any, problem: str) -> None:
    """Poll until `condition()` is true; fails the test with `problem` at the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(0.01)
