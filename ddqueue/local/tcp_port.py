"""A TCP port for an embedded server: its last one if that is free, else a new one."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from ddqueue.errors import DdqueueError
from ddqueue.local.files import write_private

_LOWEST, _HIGHEST = 20000, 32767
"""Below Linux's ephemeral range, so that no outgoing connection sits on a server's port while it restarts, and far from
5432 and 6379, where the machine's own servers live."""


def choose(remembered: Path) -> int:
    """A free port of 127.0.0.1, kept in the file `remembered` so that addresses outlive a restart.

    The port is free when this returns; a caller that then cannot bind it asks again.

    Raises:
        DdqueueError: no port could be found.
    """
    last = _read(remembered)
    if last is not None and _is_free(last):
        return last
    for _ in range(200):
        port = random.randint(_LOWEST, _HIGHEST)
        if _is_free(port):
            write_private(remembered, f"{port}\n")
            return port
    raise DdqueueError(f"no free TCP port between {_LOWEST} and {_HIGHEST} on 127.0.0.1")


def _read(remembered: Path) -> int | None:
    try:
        port = int(remembered.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return port if _LOWEST <= port <= _HIGHEST else None


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the servers do: connections that linger from before a restart do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
