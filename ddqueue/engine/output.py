"""The file a server writes its output to: drained for ever, bounded in size.

The server writes straight into the file, and this process frees the middle of it while it grows. A pipe that this
process drains would bound the size without a moment's delay, but then the server's life hangs on ours: a killed attempt
breaks the pipe and the server with it, its last words are lost, and a busy reader makes a busy server wait. Here a
killed attempt means only that nobody frees anything until the next attempt on this host ends that server.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import threading
from pathlib import Path

log = logging.getLogger(__name__)

MIB = 2**20
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_BLOCK = 4096
_WORTH_FREEING = MIB
_NO_HOLES = (errno.EOPNOTSUPP, errno.ENOSYS)


class BoundedLog:
    """Keeps the first `head_bytes` and the last `tail_bytes` of a growing file on disk: how the server started, and
    how it ended.

    Between two checks the file may grow by whatever the server writes in `check_every_s`. `close` must be called.
    """

    def __init__(
        self, path: Path, head_bytes: int = 8 * MIB, tail_bytes: int = 8 * MIB, check_every_s: float = 0.2
    ) -> None:
        self._path = path
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._check_every_s = check_every_s
        self._freed_to = head_bytes
        self._closed = threading.Event()
        path.parent.mkdir(parents=True, exist_ok=True)
        # Append, or the server's own offset would write into what was freed after a truncation.
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._thread = threading.Thread(target=self._watch, name="server log", daemon=True)
        self._thread.start()

    @property
    def path(self) -> Path:
        return self._path

    @property
    def fd(self) -> int:
        """What the server gets as its standard output and error; open until `close`."""
        return self._fd

    def close(self) -> None:
        """Stop watching, once nobody writes any more, and leave an ordinary file without a hole. Safe to repeat."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._thread.join()
        try:
            self._free()
            if self._freed_to > self._head_bytes:
                self._join_ends()
        except OSError as error:
            log.warning("the server log %s keeps its hole: %s", self._path, error)
        finally:
            os.close(self._fd)

    def _watch(self) -> None:
        while not self._closed.wait(self._check_every_s):
            try:
                self._free()
            except OSError as error:
                log.warning("the server log %s is not bounded any more: %s", self._path, error)
                return

    def _free(self) -> None:
        """Give the blocks between the head and the tail back to the file system; offsets stay as they are."""
        size = os.fstat(self._fd).st_size
        end = (size - self._tail_bytes) // _BLOCK * _BLOCK
        if end - self._freed_to < _WORTH_FREEING:
            return
        try:
            _punch_hole(self._fd, self._freed_to, end - self._freed_to)
        except OSError as error:
            if error.errno not in _NO_HOLES:
                raise
            # A file system without holes (NFS 3): the end since the last cut is what can be kept there.
            os.ftruncate(self._fd, self._head_bytes)
            return
        self._freed_to = end

    def _join_ends(self) -> None:
        left_out = self._freed_to - self._head_bytes
        shorter = self._path.with_name(f".{self._path.name}.shorter")
        with shorter.open("wb") as file:
            file.write(os.pread(self._fd, self._head_bytes, 0))
            file.write(f"\n[ddqueue left out {left_out} bytes here]\n".encode())
            file.write(os.pread(self._fd, os.fstat(self._fd).st_size - self._freed_to, self._freed_to))
        shorter.replace(self._path)


def _punch_hole(fd: int, offset: int, length: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    mode = ctypes.c_int(_PUNCH_HOLE | _KEEP_SIZE)
    if libc.fallocate(ctypes.c_int(fd), mode, ctypes.c_int64(offset), ctypes.c_int64(length)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
