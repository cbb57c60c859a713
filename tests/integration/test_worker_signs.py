"""A real worker under what looks to it like systemd."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from installation import PATIENCE_S, Installation

HOST = "sim-rtx6000"


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(PATIENCE_S)
        yield listening


def test_a_worker_says_that_it_is_up_alive_and_ending(
    tmp_path: Path, database_url: str, redis_url: str, systemd: socket.socket
) -> None:
    installation = Installation(tmp_path / "home", database_url, redis_url)
    installation.set("NOTIFY_SOCKET", str(systemd.getsockname()))
    installation.set("WATCHDOG_USEC", str(2_000_000))
    worker = installation.start("worker", "--host", HOST)
    try:
        said = [systemd.recv(64)]
        while said.count(b"READY=1") + said.count(b"WATCHDOG=1") < 8:
            said.append(systemd.recv(64))
        assert said.count(b"READY=1") == 1
        assert worker.poll() is None
        os.kill(worker.pid, signal.SIGTERM)
        while said[-1] != b"STOPPING=1":
            said.append(systemd.recv(64))
        assert worker.wait(PATIENCE_S) == 0
    finally:
        installation.stop()
