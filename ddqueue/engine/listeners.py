"""Who listens on a TCP port of this machine, read from the kernel's own tables."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass

from ddqueue.processes import command_line

_LISTEN = "0A"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_REACHED_BY_LOOPBACK = ("0100007F", "00000000", "0" * 32, "0000000000000000FFFF00000100007F")
"""127.0.0.1 and every address, as the tables write them, in version 4 and 6. Another address is another socket."""


@dataclass(frozen=True)
class Listener:
    """A socket that answers on 127.0.0.1:`port`; `pid` is None when its process cannot be seen by this user."""

    port: int
    uid: int
    pid: int | None

    def __str__(self) -> str:
        if self.pid is None:
            return f"a process of user id {self.uid} that cannot be seen"
        return f"pid {self.pid} ({command_line(self.pid) or 'no command line'})"


def listeners(ports: Iterable[int]) -> list[Listener]:
    """Whoever listens on these ports of the loopback address. A connection in TIME_WAIT is no listener."""
    wanted = set(ports)
    sockets = {inode: (port, uid) for inode, port, uid in _listening() if port in wanted}
    if not sockets:
        return []
    owners: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            owners |= {inode: int(name) for inode in _sockets_of(name) if inode in sockets}
    return [Listener(port, uid, owners.get(inode)) for inode, (port, uid) in sockets.items()]


def ports_of(pids: Iterable[int]) -> set[int]:
    """The ports these processes listen on."""
    ports = {inode: port for inode, port, _ in _listening()}
    return {ports[inode] for pid in pids for inode in _sockets_of(str(pid)) if inode in ports}


def _listening() -> list[tuple[int, int, int]]:
    """(inode, port, user id) of every listening socket."""
    found = []
    for table in _TABLES:
        with contextlib.suppress(OSError), open(table) as lines:
            for fields in (line.split() for line in lines):
                if len(fields) > 9 and fields[3] == _LISTEN:
                    address, _, port = fields[1].partition(":")
                    if address in _REACHED_BY_LOOPBACK:
                        found.append((int(fields[9]), int(port, 16), int(fields[7])))
    return found


def _sockets_of(pid: str) -> list[int]:
    """The inodes of a process's sockets; none when it is gone or another user's."""
    found = []
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
                if target.startswith("socket:["):
                    found.append(int(target[8:-1]))
    return found
