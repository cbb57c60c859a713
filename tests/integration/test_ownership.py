"""The kernel's lock on a host, with real processes: live owners, dead ones, and what they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.gpu.ownership import LOCK_VARIABLE, KernelOwnership
from ddqueue.processes import is_alive, openers, start_ticks

OWNER = """
import os, subprocess, sys, time
from pathlib import Path
from ddqueue.gpu.ownership import LOCK_VARIABLE, KernelOwnership
with KernelOwnership(Path(sys.argv[1])).own("box") as lock:
    if lock is None:
        print("busy", flush=True)
        sys.exit(0)
    if len(sys.argv) > 2:
        # A "server" in a session of its own that inherits the lock, and a child of it that does not.
        body = (
            "import subprocess, time; subprocess.Popen(['sleep', '600'], start_new_session=True); time.sleep(600)"
        )
        server = subprocess.Popen(
            [sys.executable, "-c", body],
            env=os.environ | {LOCK_VARIABLE: lock.path},
            start_new_session=True,
            pass_fds=(lock.fd,),
        )
        lock.note_server(server.pid)
    print("owned", flush=True)
    time.sleep(600)
"""


def owner(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder), *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.said = process.stdout.readline().strip()  # type: ignore[attr-defined]
    return process


def wait_for(what: str, condition: object) -> None:
    deadline = time.monotonic() + 20
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_a_live_owner_is_left_alone(tmp_path: Path) -> None:
    first = owner(tmp_path)
    try:
        assert first.said == "owned"  # type: ignore[attr-defined]
        second = owner(tmp_path)
        assert second.said == "busy"  # type: ignore[attr-defined]
        assert second.wait(10) == 0
        assert first.poll() is None
    finally:
        first.kill()
        first.wait()


def test_the_lock_is_free_after_its_owner(tmp_path: Path) -> None:
    ownership = KernelOwnership(tmp_path)
    for _ in range(2):
        with ownership.own("box") as lock:
            assert lock is not None
            assert openers(lock.path) == []


def test_a_dead_owners_server_is_ended_and_so_is_what_left_its_session(tmp_path: Path) -> None:
    first = owner(tmp_path, "with a server")
    ownership = KernelOwnership(tmp_path)
    wait_for("the server and its child", lambda: len(ownership.strays("box")) == 2)
    left = [(pid, start_ticks(pid)) for pid in ownership.strays("box")]
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert all(ticks is not None and is_alive(pid, ticks) for pid, ticks in left), "an orphan outlives its owner"
    with ownership.own("box") as lock:
        assert lock is not None
        assert ownership.strays("box") == []
    assert not any(ticks is not None and is_alive(pid, ticks) for pid, ticks in left)


def test_a_stray_without_the_lock_is_ended_too(tmp_path: Path) -> None:
    ownership = KernelOwnership(tmp_path)
    mark = {LOCK_VARIABLE: str(tmp_path / "box.lock")}
    stray = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=os.environ | mark)
    other = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env=os.environ | {LOCK_VARIABLE: str(tmp_path / "other.lock")},
    )
    try:
        wait_for("the stray's environment", lambda: ownership.strays("box") == [stray.pid])
        with ownership.own("box") as lock:
            assert lock is not None
        assert stray.wait(10) == -signal.SIGKILL
        assert other.poll() is None, "another lock's process is none of ours"
    finally:
        other.kill()
        other.wait()


def test_a_stranger_that_keeps_the_lock_is_named_and_not_ended(tmp_path: Path) -> None:
    path = tmp_path / "box.lock"
    code = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print('held', flush=True)"
    code += "; time.sleep(600)"
    stranger = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert stranger.stdout is not None
    assert stranger.stdout.readline() == "held\n"
    try:
        own = KernelOwnership(tmp_path, recovery_limit_s=0.3).own("box")
        with pytest.raises(AttemptFailure, match=f"pid {stranger.pid}") as refused, own:
            pytest.fail("the lock was given twice")
        assert refused.value.failure is Failure.GPU_BUSY
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
