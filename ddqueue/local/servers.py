"""Start and stop the embedded servers, and servers that end with their caller."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ddqueue.errors import DdqueueError, UsageError
from ddqueue.local import locks
from ddqueue.local.account import server_account
from ddqueue.local.home import Home
from ddqueue.local.pair import ServerPair, sole_owner
from ddqueue.local.record import RunningProcess, read_supervisor
from ddqueue.local.running import LocalServers, running
from ddqueue.local.supervisor import ALREADY_OWNED

__all__ = ["LocalServers", "ephemeral", "running", "start", "stop"]

_POLL_S = 0.05


def start(home: Path, progress: Callable[[str], None] | None = None, limit_s: float = 360.0) -> LocalServers:
    """Start both servers under a supervisor that outlives the caller; returns at once when they run already.

    `progress` gets each line that the supervisor logs meanwhile.

    Raises:
        DdqueueError: they did not start, with the end of the supervisor's log.
        UsageError: the folder cannot be used, or another program runs its servers itself.
    """
    place = Home(home.absolute())
    if (servers := running(place.path)) is not None:
        return servers
    place.prepare(server_account())
    log = _Tail(place.supervisor_log)
    supervisor: int | None = None
    deadline = time.monotonic() + limit_s
    while (servers := running(place.path)) is None:
        if supervisor is None and read_supervisor(place.supervisor_lock) is None:
            supervisor = _launch(place)
        time.sleep(_POLL_S)
        for line in log.new_lines():
            if progress:
                progress(line)
        code = _exit_code(supervisor)
        # Another one starts or stops them at this moment: its end, or its success, decides.
        if code == ALREADY_OWNED:
            supervisor = None
            _refuse_anothers(place)
        elif code is not None:
            raise DdqueueError(f"the embedded servers did not start; {place.supervisor_log} says:\n{log.text()}")
        if time.monotonic() > deadline:
            raise DdqueueError(
                f"the embedded servers were not ready within {limit_s:.0f} s\n"
                f"  {place.supervisor_log} says:\n{log.text()}"
            )
    return servers


def stop(home: Path, limit_s: float = 90.0) -> bool:
    """Stop the supervisor and both servers and wait until they are gone; False when nothing ran.

    Raises:
        DdqueueError: they were still there after `limit_s`.
        UsageError: they are another user's, or another program runs them itself.
    """
    place = Home(home.absolute())
    deadline = time.monotonic() + limit_s
    owner = read_supervisor(place.supervisor_lock)
    if owner is None:
        _refuse_anothers(place)
    else:
        os.kill(owner.pid, signal.SIGTERM)
        while owner.is_alive():
            if time.monotonic() > deadline:
                raise DdqueueError(f"the supervisor (pid {owner.pid}) did not stop within {limit_s:.0f} s")
            time.sleep(_POLL_S)
        _reap(owner)
    # Also when there was no supervisor: the servers of a killed one stop by themselves, and that takes a moment.
    for lock in (place.postgres_lock, place.valkey_lock):
        if not locks.wait_until_free(lock, deadline - time.monotonic()):
            raise DdqueueError(f"processes of the embedded servers still hold {lock}; see: fuser -v {lock}")
    return owner is not None


@contextmanager
def ephemeral(path: Path, durable: bool = False) -> Iterator[LocalServers]:
    """Both servers as children of this process, for tests and demos; they end with it, even by SIGKILL.

    What they store stays in `path`, but with `durable=False` a power cut may cost it. Call it from the main thread.

    Raises:
        AlreadyOwned: the servers of this folder run already.
        DdqueueError: they cannot be started; UsageError for an unusable folder.
    """
    home = Home(path.absolute())
    with sole_owner(home):
        pair = ServerPair(home, durable)
        try:
            pair.start()
            record = pair.record()
            yield LocalServers(record.database_url, record.redis_url)
        finally:
            pair.stop()


def _refuse_anothers(home: Home) -> None:
    """A program that called `ephemeral` did not offer to be stopped by others: it must not be sent a signal."""
    if not home.supervisor_lock.exists() or locks.wait_until_free(home.supervisor_lock, 0.5):
        return
    # A supervisor takes the lock a moment before it writes itself into it.
    if read_supervisor(home.supervisor_lock) is None:
        raise UsageError(
            f"{home.path}: another program, such as a demo, runs the servers of this folder; they end with it\n"
            f"  see who it is with: fuser -v {home.supervisor_lock}"
        )


class _Tail:
    """What is added to a log from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0
        self._lines: list[str] = []

    def new_lines(self) -> list[str]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]
        self._offset += len(whole)
        lines = whole.decode("utf-8", "replace").splitlines()
        self._lines += lines
        return lines

    def text(self) -> str:
        self.new_lines()
        return "\n".join(f"  {line}" for line in self._lines[-30:]) or "  (nothing)"


def _launch(home: Home) -> int:
    """Start the supervisor in a session of its own, with nothing of the caller's terminal; returns its pid."""
    return os.posix_spawn(
        sys.executable,
        # -P, so that a folder named `ddqueue` in the current one is not taken for the program.
        [sys.executable, "-P", "-m", "ddqueue.local.supervisor", str(home.path)],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(home.supervisor_log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
    )


def _exit_code(pid: int | None) -> int | None:
    """The exit code of our own child; None while it runs or when there is none."""
    if pid is None:
        return None
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _reap(process: RunningProcess) -> None:
    """Collect a supervisor that this very process started, so that it does not stay a zombie."""
    with suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
