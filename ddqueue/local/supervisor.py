"""The process that owns both servers: `python -m ddqueue.local.supervisor HOME`.

It restarts a server that dies, stops both on SIGTERM or SIGINT, and ends with them. When it is killed, the kernel tells
both servers to stop.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from ddqueue.errors import DdqueueError
from ddqueue.local.home import Home
from ddqueue.local.pair import AlreadyOwned, ServerPair, sole_owner
from ddqueue.local.record import announce_supervisor
from ddqueue.local.server import Server

ALREADY_OWNED = 4
"""Exit code when another supervisor holds the home."""

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STABLE_S = 60.0
_LONGEST_PAUSE_S = 30.0

_log = logging.getLogger(__name__)


class StopRequested(BaseException):
    """A signal asked for the end; not an Exception, so that no recovery on the way swallows it."""


def supervise(home: Home) -> None:
    """Run both servers until a signal asks for the end.

    Raises:
        AlreadyOwned: another process runs them.
        DdqueueError: they cannot be started.
    """
    with _signals() as wake_up, sole_owner(home) as lock:
        announce_supervisor(lock)
        # Of a supervisor that was killed; nobody else may write one now.
        home.record.unlink(missing_ok=True)
        pair = ServerPair(home)
        try:
            pair.start()
            _keep_alive(pair, home, wake_up)
        except StopRequested:
            _log.info("stopping both servers")
        finally:
            for number in _STOP_SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            home.record.unlink(missing_ok=True)
            pair.stop()


def _keep_alive(pair: ServerPair, home: Home, wake_up: int) -> None:
    pause_s = 0.0
    while True:
        pair.record().write(home.record)
        _log.info("both servers are ready")
        while not pair.dead():
            _wait(wake_up, None)
        home.record.unlink(missing_ok=True)
        while dead := pair.dead():
            for server in dead:
                pause_s = _restart(server, pause_s, wake_up)


def _restart(server: Server, pause_s: float, wake_up: int) -> float:
    """Start a dead server again; returns the pause before the next restart in a row, in seconds."""
    _log.warning("%s", server.child.evidence())
    if time.monotonic() - server.started_at_s > _STABLE_S:
        pause_s = 0.0
    until = time.monotonic() + pause_s
    while (left_s := until - time.monotonic()) > 0:
        _wait(wake_up, left_s)
    try:
        server.start()
    except DdqueueError as error:
        _log.error("%s", error)
    return min(max(1.0, pause_s * 2), _LONGEST_PAUSE_S)


@contextmanager
def _signals() -> Iterator[int]:
    """Yields a descriptor that becomes readable at every signal, so that none slips in before a wait begins."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise StopRequested

    def note(number: int, frame: FrameType | None) -> None:
        """A child ended: the wait is over."""

    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    handlers = {number: signal.signal(number, stop) for number in _STOP_SIGNALS}
    handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, note)
    previous = signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    try:
        yield readable
    finally:
        signal.set_wakeup_fd(previous)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(readable)
        os.close(writable)


def _wait(wake_up: int, timeout_s: float | None) -> None:
    if select.select([wake_up], [], [], timeout_s)[0]:
        os.read(wake_up, 4096)


def main() -> int:
    """Supervise the home named by the only argument; logs go to stderr."""
    # A pipe that the caller left open must not stay open as long as the servers run.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir("/")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    try:
        supervise(Home(Path(sys.argv[1])))
    except AlreadyOwned:
        return ALREADY_OWNED
    except DdqueueError as error:
        _log.error("%s", error)
        return error.exit_code
    except StopRequested:
        _log.info("stopped before anything was started")
    return 0


if __name__ == "__main__":
    sys.exit(main())
