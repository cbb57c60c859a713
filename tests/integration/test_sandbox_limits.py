"""What a program in the sandbox cannot use up, and machines on which there can be no sandbox."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from sandbox_world import ORDINARY_UID, Driver

CLONE_NEWUSER, PR_SET_DUMPABLE, PR_CAPBSET_DROP, CAP_SYS_ADMIN = 0x1000_0000, 4, 24, 21
QUICK = {"cpu_s": 1.0, "wall_s": 30.0}


def test_a_busy_loop_ends_at_its_cpu_limit(driver: Driver) -> None:
    result = driver.run("while True: pass", **QUICK)
    assert (result["killed_for"], result["timed_out"], result["exit_code"]) == ("cpu", True, None)
    assert 1.0 <= result["cpu_s"] < 3.0


def test_the_cpu_of_threads_and_children_counts_together(driver: Driver) -> None:
    threads = "import hashlib, threading\nb = bytes(1 << 20)\ndef f():\n    while True: hashlib.sha256(b)\n"
    threads += "for _ in range(6): threading.Thread(target=f).start()"
    assert driver.run(threads, **QUICK)["killed_for"] == "cpu"
    # Each child ends long before its own limit, and the sum does not.
    children = "import os\nwhile True:\n    if os.fork() == 0:\n        sum(range(10**6)); os._exit(0)\n    os.wait()"
    assert driver.run(children, **QUICK)["killed_for"] == "cpu"


def test_sleeping_ends_at_the_wall_limit(driver: Driver) -> None:
    result = driver.run("import time; time.sleep(1000)", wall_s=0.5)
    assert (result["killed_for"], result["timed_out"], result["fault"]) == ("wall", True, None)


def test_a_fork_bomb_ends_and_is_small(driver: Driver) -> None:
    code = """
import os
while True:
    try: os.fork()
    except OSError: pass
"""
    result = driver.run(code, **QUICK)
    assert result["killed_for"] in ("cpu", "wall", "memory")
    assert result["fault"] is None
    count = "import os\nn = 1\ntry:\n    while os.fork(): n += 1\n    os._exit(0)\nexcept BlockingIOError: print(n)"
    count = count.replace("os._exit(0)", "import time; time.sleep(60)")
    # The program is one of them; without root, the keeper and its launcher have the same user and count too.
    assert driver.run(count, processes=16)["stdout"] in ("14\n", "15\n", "16\n")


def test_a_gigabyte_of_output_is_cut_at_the_limit(driver: Driver) -> None:
    code = "import os\nfor _ in range(1 << 14): os.write({fd}, b'x' * (1 << 16))"
    for fd, name in ((1, "stdout"), (2, "stderr")):
        result = driver.run(code.format(fd=fd), output_bytes=100_000)
        assert (result["killed_for"], result["timed_out"]) == ("output", False)
        assert result[name] == "x" * 100_000
    # The private channel counts as well.
    assert driver.run(code.format(fd=3), output_bytes=100_000)["killed_for"] == "output"


def test_four_gigabytes_are_refused(driver: Driver) -> None:
    result = driver.run("bytearray(4 << 30)")
    assert result["exit_code"] == 1
    assert "MemoryError" in result["stderr"]


def test_the_memory_of_children_counts_together(driver: Driver) -> None:
    code = """
import os, time
for _ in range(10):
    if os.fork() == 0:
        kept = bytearray(b"x") * (40 << 20)
        time.sleep(1000)
time.sleep(1000)
"""
    result = driver.run(code, memory_mib=200)
    assert result["killed_for"] == "memory"
    assert result["memory_mib"] > 200


def test_its_tmp_has_a_size_and_a_file_has_one(driver: Driver) -> None:
    code = """
def fill(path):
    written = 0
    try:
        with open(path, "wb", buffering=0) as file:
            while True: written += file.write(b"x" * (1 << 16))
    except OSError as error:
        return written >> 20, error.errno
print(fill("/tmp/a"), fill("/tmp/b"), fill("/tmp/c"))
"""
    # 27 is EFBIG, 28 is ENOSPC.
    assert driver.run(code, file_mib=4, scratch_mib=10)["stdout"] == "(4, 27) (4, 27) (2, 28)\n"


def test_many_files_cannot_be_open(driver: Driver) -> None:
    code = (
        "kept = []\ntry:\n    while True: kept.append(open('/dev/null'))\nexcept OSError as error: print(error.errno)"
    )
    assert driver.run(code, open_files=20)["stdout"] == "24\n"  # EMFILE


@pytest.mark.parametrize(
    "code",
    [
        "def f(): return f()\nf()",
        "import sys; sys.setrecursionlimit(10**9)\ndef f(x): return [f(x)]\nf(1)",
        "x = eval('[' * 90 + ']' * 90)\nfor _ in range(10**6): x = [x]\nprint(repr(x))",
        "print(len(str(10 ** 10**8)))",
        "print(2 ** 2 ** 60)",
    ],
)
def test_deep_recursion_and_huge_numbers_end(driver: Driver, code: str) -> None:
    result = driver.run(code, **QUICK)
    assert result["fault"] is None
    assert result["exit_code"] != 0
    assert result["stdout"] == ""


# Where there can be no sandbox, nothing runs.


def _forbid_user_namespaces(uid: int) -> Callable[[], None]:
    def prepare() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        assert libc.unshare(CLONE_NEWUSER) == 0
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/sys/user/max_user_namespaces").write_text("0")

    return prepare


def _drop_sys_admin() -> None:
    assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) == 0


def _faults_in(started: Driver) -> str:
    """The fault of a program that would leave a file behind if it ran outside a sandbox."""
    trace = started.scratch / "ran"
    try:
        result = started.run(f"open({str(trace)!r}, 'w'); print('ran')")
        assert not trace.exists()
        assert (result["stdout"], result["exit_code"], result["walls"]) == ("", None, None)
        return str(result["fault"])
    finally:
        started.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_without_the_capability_gets_a_fault_with_its_remedy() -> None:
    fault = _faults_in(Driver(0, "namespaces", prepare=_drop_sys_admin))
    assert "unshare: Operation not permitted" in fault
    assert "nothing was run" in fault
    assert "install bubblewrap" in fault


def test_a_user_without_user_namespaces_gets_a_fault_with_its_remedy() -> None:
    uid = os.geteuid() or ORDINARY_UID
    try:
        started = Driver(uid, "namespaces", prepare=_forbid_user_namespaces(uid))
    except subprocess.SubprocessError:
        pytest.skip("this user can make no user namespace, so none in which they are forbidden")
    fault = _faults_in(started)
    assert "unshare: No space left on device" in fault  # How the kernel says that their number is used up.
    assert "install bubblewrap" in fault
