"""The sandbox against programs that mean harm: as root and as an ordinary user, with each kind of walls."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox_driver import processes_with

ROOT = Path(__file__).resolve().parents[2]
DRIVER = ROOT / "tests" / "sandbox_driver.py"
ORDINARY_UID = 64_321
CLONE_NEWUSER, PR_SET_DUMPABLE, PR_CAPBSET_DROP, CAP_SYS_ADMIN = 0x1000_0000, 4, 24, 21
QUICK = {"cpu_s": 1.0, "wall_s": 30.0}
BOX_DEADLINE_S = 30


class Driver:
    """A process that runs programs in sandboxes, as one user and with one kind of walls."""

    def __init__(self, uid: int, walls: str, prepare: Callable[[], None] | None = None) -> None:
        self.uid = uid
        self.scratch = Path(tempfile.mkdtemp(prefix="ddqueue-sandbox-test-"))
        self.scratch.chmod(0o777)
        as_user: dict[str, Any] = {"user": uid, "group": uid, "extra_groups": []} if uid != os.geteuid() else {}
        self.process = subprocess.Popen(
            [_interpreter_for(uid), "-B", str(DRIVER), walls],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env={"PATH": os.environ["PATH"], "TMPDIR": str(self.scratch), "DDQUEUE_SECRET": "of the parent"},
            preexec_fn=prepare,
            **as_user,
        )

    def run(self, code: str, **limits: Any) -> dict[str, Any]:
        """The result as plain values, with `witnessed` (see the driver)."""
        self.ask(code, **limits)
        while "exit_code" not in (reply := self.read()):
            pass
        return reply

    def ask(self, code: str, **limits: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"code": code, "limits": limits}) + "\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the driver ended with status {self.process.wait()}"
        reply: dict[str, Any] = json.loads(line)
        return reply

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        shutil.rmtree(self.scratch)


def _interpreter_for(uid: int) -> str:
    """This Python, or the system's, where `uid` may start it and read the driver; skips the test if there is none."""
    for candidate in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        check = f"import sys; assert sys.version_info >= (3, 11); open({str(DRIVER)!r})"
        as_user: dict[str, Any] = {"user": uid, "group": uid, "extra_groups": []} if uid != os.geteuid() else {}
        try:
            if subprocess.run([candidate, "-c", check], cwd="/", capture_output=True, **as_user).returncode == 0:
                return candidate
        except OSError:
            continue
    pytest.skip(f"no Python 3.11 here that user {uid} can start, or the checkout is closed to them")


@pytest.fixture(
    scope="module",
    params=[(user, walls) for walls in ("namespaces", "bubblewrap") for user in ("root", "ordinary")],
    ids="-".join,
)
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    user, walls = request.param
    if user == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    if walls == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap (bwrap) is not installed")
    uid = 0 if user == "root" else os.geteuid() or ORDINARY_UID
    started = Driver(uid, walls)
    try:
        first = started.run("print('in')")
        if first["fault"] is not None:
            pytest.skip(f"no such sandbox on this machine: {first['fault']}")
        assert first["walls"] == walls
        yield started
    finally:
        started.close()


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test: no child of the driver, no descriptor, no mount and no file more than before."""
    if "driver" not in request.fixturenames:
        yield
        return
    driver: Driver = request.getfixturevalue("driver")
    descriptors, mounts = driver.descriptors(), _mounts_of(driver)
    yield
    assert _children_of(driver.process.pid) == []
    assert driver.descriptors() == descriptors
    assert _mounts_of(driver) == mounts
    assert list(driver.scratch.iterdir()) == []


def _mounts_of(driver: Driver) -> list[str]:
    lines = Path(f"/proc/{driver.process.pid}/mountinfo").read_text().splitlines()
    return [line for line in lines if line.split()[4] == "/tmp"]


def _children_of(parent: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split() if name.isdigit() else []
        except OSError:
            continue
        if fields and int(fields[1]) == parent:
            found.append(int(name))
    return found


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


# What it must not use up.


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
