"""What a program in the sandbox gets, and what it can neither see, reach, kill nor leave behind."""

from __future__ import annotations

import socket
import time
import uuid
from pathlib import Path

import pytest
from sandbox_driver import processes_with
from sandbox_world import DRIVER, ROOT, Driver

BOX_DEADLINE_S = 30


# What an ordinary program gets.


def test_a_program_has_its_output_and_its_status_returned(driver: Driver) -> None:
    result = driver.run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("out\n", "err\n", 3)
    assert (result["fault"], result["killed_for"], result["timed_out"]) == (None, None, False)
    assert driver.run("import os; os.kill(os.getpid(), 11)")["exit_code"] == -11


def test_the_standard_library_works_and_a_file_can_be_written(driver: Driver) -> None:
    code = """
import bisect, collections, ctypes, dataclasses, decimal, hashlib, json, math, re, sqlite3, tempfile, threading, zlib
with tempfile.TemporaryFile() as file:
    file.write(b"x"); file.seek(0); print(file.read(), math.comb(5, 2), hashlib.sha256(b"").hexdigest()[:4])
threads = [threading.Thread(target=print, args=("thread",)) for _ in range(8)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
"""
    result = driver.run(code)
    assert result["stdout"] == "b'x' 10 e3b0\n" + "thread\n" * 8, result["stderr"]


def test_standard_input_is_empty(driver: Driver) -> None:
    assert "EOFError" in driver.run("input()")["stderr"]


@pytest.mark.parametrize("code", ["print('é \\N{SNOWMAN} 日本')", "print('a\\0b')"])
def test_text_comes_back_as_it_was(driver: Driver, code: str) -> None:
    assert driver.run(code)["stdout"] == eval(code.removeprefix("print")) + "\n"


@pytest.mark.parametrize("code", ["\0", "x = '\ud800'", "def f(:", "(" * 5000])
def test_what_is_no_python_fails_and_is_no_fault(driver: Driver, code: str) -> None:
    result = driver.run(code)
    assert result["fault"] is None
    assert result["exit_code"] == 1
    assert result["stderr"] != ""


# What it must not see or reach.


def test_it_is_nobody_with_no_privilege_and_cannot_gain_any(driver: Driver) -> None:
    code = """
import ctypes, os
print(os.getuid() == 65534 or os.getuid() >= 0x70000000, os.getresuid() == (os.getuid(),) * 3)
libc = ctypes.CDLL(None, use_errno=True)
print(libc.prctl(39, 0, 0, 0, 0))                                  # no_new_privs
print([cap for cap in range(41) if libc.prctl(23, cap, 0, 0, 0) == 1 and os.getuid() == 0])
for name, arguments in {
    "unshare": (0x10000000,), "mount": (b"none", b"/tmp", b"tmpfs", 0, None), "chroot": (b"/tmp",),
    "sethostname": (b"x", 1), "setuid": (0,), "ptrace": (16, 1, 0, 0), "shmget": (0, 1 << 30, 0o1600),
    "memfd_create": (b"x", 0),
}.items():
    print(name, getattr(libc, name)(*arguments))
try:
    print(os.setgroups([0]))
except OSError:
    print("groups refused")
"""
    result = driver.run(code)
    refused = ("unshare", "mount", "chroot", "sethostname", "setuid", "ptrace", "shmget", "memfd_create")
    assert result["stdout"].splitlines() == [
        "True True",
        "1",
        "[]",
        *(f"{name} -1" for name in refused),
        "groups refused",
    ], result["stderr"]


def test_it_reads_no_password_file_no_home_and_nothing_of_the_project(driver: Driver) -> None:
    places = ["/etc/shadow", "/etc/passwd", "/home", "/root/.ssh", "/var", "/proc/1/environ", "/sys", "/dev/shm"]
    places += [str(ROOT), str(ROOT / "pyproject.toml"), str(DRIVER), str(driver.scratch), "/host", "/proc/1/root/etc"]
    code = f"""
import os
for place in {places!r}:
    try:
        open(place).read()
    except IsADirectoryError:
        try: print(place, os.listdir(place))
        except OSError: pass
    except OSError: pass
    else: print(place)
"""
    result = driver.run(code)
    assert (result["exit_code"], result["stdout"]) == (0, "")


def test_installed_packages_are_covered(driver: Driver) -> None:
    code = """
import glob, sys
found = [place for root in ("/usr/lib", sys.base_prefix + "/lib") for kind in ("site", "dist")
         for place in glob.glob(f"{root}/python3*/{kind}-packages/*")]
print(len(sys.path) > 0, found)
"""
    assert driver.run(code)["stdout"] == "True []\n"


def test_it_inherits_no_environment_and_no_descriptor(driver: Driver) -> None:
    code = """
import os
print(sorted(os.environ))
for fd in range(4, 1024):
    try: os.fstat(fd)
    except OSError: continue
    print("open", fd)
"""
    assert driver.run(code)["stdout"] == "['HOME', 'LANG', 'MALLOC_ARENA_MAX', 'PATH', 'TMPDIR']\n"
    # The positive control: the parent does have it.
    assert b"DDQUEUE_SECRET=of the parent" in Path(f"/proc/{driver.process.pid}/environ").read_bytes()


def test_it_writes_nowhere_but_in_its_own_tmp(driver: Driver) -> None:
    places = ["/x", "/usr/lib/x", "/home/x", "/etc/x", "/dev/x", str(driver.scratch / "x"), str(ROOT / "x"), "/root/x"]
    code = f"""
import os, sys
open("/tmp/mine", "w").close()
for place in {places!r} + [os.path.dirname(os.__file__) + "/x", sys.executable]:
    try: open(place, "a")
    except OSError: continue
    print("wrote", place)
"""
    result = driver.run(code)
    assert (result["exit_code"], result["stdout"]) == (0, "")
    assert not Path("/tmp/mine").exists()
    assert driver.run("import os; print(os.listdir('/tmp'))")["stdout"] == "[]\n"


def test_it_reaches_no_socket_of_the_host_and_none_outside(driver: Driver) -> None:
    abstract = f"\0ddqueue-{uuid.uuid4().hex}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(abstract)
        local.listen()
        port = server.getsockname()[1]
        for family, address in ((socket.AF_INET, ("127.0.0.1", port)), (socket.AF_UNIX, abstract)):
            with socket.socket(family) as control:
                control.connect(address)
        code = f"""
import socket
for family, address in (
    (socket.AF_INET, ("127.0.0.1", {port})), (socket.AF_INET6, ("::1", {port})),
    (socket.AF_INET, ("192.0.2.1", 80)), (socket.AF_UNIX, {abstract!r}),
):
    one = socket.socket(family)
    one.settimeout(5)
    try: one.connect(address); print("connected", address)
    except OSError as error: print(error.errno is not None)
for family in (socket.AF_VSOCK, socket.AF_NETLINK, socket.AF_PACKET):
    try: socket.socket(family, socket.SOCK_RAW); print("opened", family)
    except PermissionError: print("refused")
"""
        result = driver.run(code)
        assert result["stdout"] == "True\n" * 4 + "refused\n" * 3, result["stderr"]
        server.accept()[0].close()
        server.settimeout(0)
        with pytest.raises(BlockingIOError):  # Only the control came.
            server.accept()


# What it must not kill or leave behind.


def test_it_cannot_kill_its_parent_or_change_its_limits(driver: Driver) -> None:
    code = """
import os, resource, signal
for pid in (os.getppid(), 1, -1):
    for number in (signal.SIGINT, signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):
        try: os.kill(pid, number)
        except OSError: pass
try: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)); print("changed")
except OSError: print("refused")
"""
    result = driver.run(code)
    assert (result["stdout"], result["exit_code"], result["fault"]) == ("refused\n", 0, None)


ESCAPE = """
import os, sys, time
came_from, came_to = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        if os.fork() == 0:
            # The pipe closes by itself once this exec has happened.
            os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(1000)", MARK])
        os.close(came_to)
        time.sleep(1000)
    os._exit(0)
os.close(came_to)
os.wait()
os.read(came_from, 1)
os.write(3, MARK.encode() + b"\\n")
print(os.read(3, 100).decode().strip())
"""


def test_no_child_outlives_it(driver: Driver) -> None:
    mark = f"mark-{uuid.uuid4().hex}"
    result = driver.run(f"MARK = {mark!r}" + ESCAPE)
    # The control: it was there, and could be seen, when the program still ran.
    assert (result["stdout"], result["witnessed"], result["exit_code"]) == ("1\n", [1], 0), result["stderr"]
    assert processes_with(mark) == []


def test_no_child_outlives_one_that_was_ended(driver: Driver) -> None:
    mark = f"mark-{uuid.uuid4().hex}"
    result = driver.run(f"MARK = {mark!r}" + ESCAPE + "time.sleep(1000)", wall_s=3)
    assert (result["killed_for"], result["witnessed"]) == ("wall", [1])
    assert processes_with(mark) == []


def test_nothing_is_left_when_the_grader_itself_is_killed(driver: Driver) -> None:
    own = Driver(driver.uid, "namespaces")
    try:
        mark = f"mark-{uuid.uuid4().hex}"
        own.ask(f"MARK = {mark!r}" + ESCAPE + "time.sleep(1000)", wall_s=1000)
        assert own.read() == {"heard": mark}
        assert len(processes_with(mark)) == 1
        own.process.kill()
        deadline = time.monotonic() + BOX_DEADLINE_S
        while processes_with(mark) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert processes_with(mark) == []
    finally:
        own.close()
