"""What counts as a process that runs."""

from __future__ import annotations

import subprocess
import sys
import time

from ddqueue.processes import is_alive, session_members, start_ticks

# The first thread ends, another goes on: as a killed server does while the driver takes its context down.
FIRST_THREAD_ENDS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print("started", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_still_runs() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FIRST_THREAD_ENDS], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        ticks = start_ticks(process.pid)
        assert ticks is not None
        deadline = time.monotonic() + 20
        while _state(process.pid) != "Z" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert _state(process.pid) == "Z", "the kernel calls it a zombie"
        assert process.poll() is None, "and nobody can reap it"
        assert is_alive(process.pid, ticks)
        assert session_members(process.pid) == {process.pid: True}
        process.kill()
        while is_alive(process.pid, ticks) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert session_members(process.pid) == {process.pid: False}, "now it waits to be reaped"
    finally:
        process.kill()
        process.wait()
        process.stdout.close() if process.stdout else None
    assert not is_alive(process.pid, ticks)
    assert session_members(process.pid) == {}


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0]
