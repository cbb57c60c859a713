"""Process 1 of the sandbox: starts the program with its limits, watches all its processes, reports, and ends with them.

It runs inside the walls, so that the kernel ends whatever is left when it does. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import resource
import select
import signal
import time
from typing import Any, NoReturn

from ddqueue.coding import sandbox_filter
from ddqueue.coding.sandbox_syscalls import drop_capabilities_for_good, forbid_new_privileges, forbid_tracing

CHANNEL_FD = 3
"""Where the program finds its private channel."""

NOBODY = 65534
SCRATCH = "/tmp"
POLL_MS = 20
MIB = 1 << 20
_FIRST_FREE_FD = 10
_FATAL = 97


def main(request_fd: int) -> NoReturn:
    """Read the request and keep it; for walls that start this process as process 1 themselves."""
    with open(request_fd, "rb") as file:
        request = json.load(file)
    keep_and_exit(request, root=None)


def keep_and_exit(request: dict[str, Any], root: str | None) -> NoReturn:
    """Run the program behind `root` (or where we are), write one report, and end with all that is left of it."""
    try:
        report = _keep(request, root)
    except BaseException as error:  # The report is the only way out; a traceback would look like the program's.
        report = {"fault": f"{type(error).__name__}: {error}"}
    tell(request, report)
    os._exit(0)


def tell(request: dict[str, Any], report: dict[str, Any]) -> None:
    """Write the report, which is shorter than what a pipe takes at once."""
    os.write(request["report_fd"], json.dumps(report).encode())


def _keep(request: dict[str, Any], root: str | None) -> dict[str, Any]:
    # Process 1 meets only the signals it handles, and Python handles this one: the program could send it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # Inherited: on a full machine this goes first, not a server that is being measured.
    forbid_tracing()
    program = _start(request, root)
    limits = request["limits"]
    deadline_ns = time.monotonic_ns() + int(limits["wall_s"] * 1e9)
    peak_bytes = 0
    with contextlib.closing(select.epoll()) as events:
        pidfd = os.pidfd_open(program)
        events.register(pidfd, select.EPOLLIN)
        events.register(request["leash_fd"], select.EPOLLHUP)
        while True:
            ready = {fd for fd, _ in events.poll(POLL_MS / 1000)}
            if request["leash_fd"] in ready:
                return {"fault": "called back"}
            status = _reap(program)
            cpu_s, memory_bytes = _usage(root)
            peak_bytes = max(peak_bytes, memory_bytes)
            exceeded = None
            if status is None:
                exceeded = _exceeded(limits, cpu_s, memory_bytes, deadline_ns)
            elif os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
                exceeded = "cpu"
            if status is not None or exceeded is not None:
                largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
                return {
                    "exit_code": None if status is None else os.waitstatus_to_exitcode(status),
                    "exceeded": exceeded,
                    "cpu_s": cpu_s,
                    "memory_bytes": max(peak_bytes, largest),
                }


def _exceeded(limits: dict[str, Any], cpu_s: float, memory_bytes: int, deadline_ns: int) -> str | None:
    if memory_bytes > limits["memory_mib"] * MIB:
        return "memory"
    if cpu_s > limits["cpu_s"]:
        return "cpu"
    return "wall" if time.monotonic_ns() > deadline_ns else None


def _reap(program: int) -> int | None:
    """Collect every process that has ended; the program's wait status, if it is among them."""
    status = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, ended_with = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == program:
                status = ended_with
    return status


def _usage(root: str | None) -> tuple[float, int]:
    """CPU seconds and bytes of memory of everything in the sandbox but this process.

    Shared file pages are left out: they are mostly the interpreter, which the host has in memory anyway.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = 0
    scratch = os.statvfs((root or "") + SCRATCH)
    memory_bytes = (scratch.f_blocks - scratch.f_bfree) * scratch.f_frsize
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            with contextlib.suppress(OSError):
                ticks += _ticks(name)
                memory_bytes += _memory_bytes(name)
    return ended.ru_utime + ended.ru_stime + ticks / os.sysconf("SC_CLK_TCK"), memory_bytes


def _ticks(pid: str) -> int:
    """Its own CPU time and that of the children it has collected, in clock ticks."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rsplit(b")", 1)[1].split()
    return sum(int(field) for field in fields[11:15])


def _memory_bytes(pid: str) -> int:
    wanted = (b"RssAnon:", b"RssShmem:", b"VmSwap:")
    with open(f"/proc/{pid}/status", "rb") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(wanted)) * 1024


def _start(request: dict[str, Any], root: str | None) -> int:
    """Start the program; returns its pid once its exec has succeeded. Raises OSError, which says what did not."""
    trouble_from, trouble_to = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            trouble_to = fcntl.fcntl(trouble_to, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD)
            _become(request, root, keep_open=trouble_to)
        except BaseException as error:
            os.write(trouble_to, str(error).encode()[:4000])
        finally:
            os._exit(_FATAL)
    os.close(trouble_to)
    os.close(request["channel_fd"])
    with open(trouble_from, "rb") as file:
        trouble = file.read()
    if trouble:
        raise OSError(trouble.decode(errors="replace"))
    return pid


def _become(request: dict[str, Any], root: str | None, keep_open: int) -> NoReturn:
    """Turn this process into the program: nothing inherited but its four descriptors, no privilege, all limits."""
    os.setsid()
    os.dup2(request["channel_fd"], CHANNEL_FD)
    os.closerange(CHANNEL_FD + 1, keep_open)
    os.closerange(keep_open + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    if root is not None:
        # A process in a chroot cannot make a user namespace; it has no capability to leave one either.
        os.chroot(root)
    os.chdir(SCRATCH)
    os.umask(0o077)
    _limit(request["limits"])
    drop_capabilities_for_good()
    if request["uid"] is not None:
        _become_user(request["uid"])
    forbid_new_privileges()
    sandbox_filter.install()
    os.execve(request["argv"][0], request["argv"], request["environment"])  # noqa: S606


def _become_user(uid: int) -> None:
    """Take an identity of this run's own, so that the bound on processes counts only these. Raises OSError."""
    os.setgroups([])
    try:
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    except OSError:
        # A container may have been given only the first 65536 identities.
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


def _limit(limits: dict[str, Any]) -> None:
    cpu_s = math.ceil(limits["cpu_s"])
    file_bytes = limits["file_mib"] * MIB
    for kind, soft, hard in (
        # The keeper counts CPU over all processes; this ends a single one even if the keeper is slow.
        (resource.RLIMIT_CPU, cpu_s + 1, cpu_s + 2),
        (resource.RLIMIT_AS, limits["memory_mib"] * MIB, limits["memory_mib"] * MIB),
        (resource.RLIMIT_NPROC, limits["processes"], limits["processes"]),
        (resource.RLIMIT_FSIZE, file_bytes, file_bytes),
        (resource.RLIMIT_NOFILE, limits["open_files"], limits["open_files"]),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_MEMLOCK, 0, 0),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
        # Also the size of each thread's stack, which counts as address space.
        (resource.RLIMIT_STACK, 8 * MIB, 8 * MIB),
    ):
        # An inherited ceiling may be lower than ours, and only privilege raises one.
        ceiling = resource.getrlimit(kind)[1]
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        resource.setrlimit(kind, (soft, hard))
