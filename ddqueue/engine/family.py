"""The processes of one server: its session, and whatever left the session but still carries the host's mark."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

from ddqueue.processes import carriers, command_line, session_members, start_ticks

_COMPILERS = frozenset({"nvcc", "cicc", "ptxas", "cudafe++", "fatbinary", "nvlink", "ninja", "cc1plus", "g++", "clang"})
"""As the kernel names their processes."""

_TITLE_BEGINS = "sglang::"


class Family:
    """`leader` was started in a session of its own, with `mark`=`value` in its environment. Processes that have ended
    and wait to be reaped are no members."""

    def __init__(self, leader: subprocess.Popen[bytes], mark: str, value: str) -> None:
        self._leader = leader
        self._mark = mark
        self._value = value

    def members(self) -> list[int]:
        """Every living process of the server, in order of their ids. One that wiped its environment and left the
        session is not found."""
        return sorted({*self._session(), *carriers(self._mark, self._value)})

    def has_dead_child(self) -> bool:
        """Whether a process of the session has ended and its parent has not noticed."""
        dead = (pid for pid, runs in session_members(self._leader.pid).items() if not runs)
        return any(pid != self._leader.pid for pid in dead)

    def ranks(self) -> dict[tuple[int, int], str]:
        """The titles of the processes that serving needs, by id and start; SGLang's name themselves
        `sglang::scheduler_TP1`, `sglang::detokenizer`. Its parent keeps its command line, and is none of them."""
        titles = ((pid, start_ticks(pid), command_line(pid).partition(" ")[0]) for pid in self._session())
        return {
            (pid, ticks): title for pid, ticks, title in titles if ticks is not None and title.startswith(_TITLE_BEGINS)
        }

    def compilers(self) -> list[str]:
        """The names of the compilers that run in it.

        A compiler is the evidence that silence is work. How busy the processes are is not: ranks that wait for each
        other, and captures that hang, keep their cores at 100%.
        """
        return sorted({name for pid in self._session() if (name := _name(pid)) in _COMPILERS})

    def kill(self) -> None:
        """SIGKILL to every member, and to the session at once, so that none can start another meanwhile."""
        if self._session():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._leader.pid, signal.SIGKILL)
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def reap(self, pids: list[int]) -> None:
        """Collect those of `pids` that have ended and were re-parented to this process."""
        self._leader.poll()
        for pid in pids:
            if pid != self._leader.pid:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _session(self) -> list[int]:
        return [pid for pid, runs in session_members(self._leader.pid).items() if runs]


def described(pids: list[int]) -> str:
    """The processes for a person: ids and command lines, at most five of them."""
    words = [f"pid {pid} ({command_line(pid) or 'no command line'})" for pid in pids[:5]]
    return ", ".join(words) + (f" and {len(pids) - 5} more" if len(pids) > 5 else "")


def _name(pid: int) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as file:
        return file.read().strip()
    return ""
