"""Kernel locks on files, held by an open descriptor and by every process that inherits it.

A server inherits its lock, and so do the processes it starts: the lock is free exactly when the last of them is gone,
however they ended. No pid file can say that.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_S = 0.02


class Held(Exception):
    """Another process holds the lock, and did so for as long as the caller was willing to wait."""


def hold(path: Path, wait_s: float) -> int:
    """Take the lock and return the descriptor that holds it; closing it in every holder gives the lock back.

    Raises:
        Held: it was not free within `wait_s`.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                raise Held(str(path)) from None
        except BaseException:
            os.close(descriptor)
            raise
        time.sleep(_POLL_S)


@contextmanager
def holding(path: Path, wait_s: float) -> Iterator[int]:
    """Hold the lock inside the block, and yield the descriptor for a process that shall hold it beyond.

    Raises:
        Held: it was not free within `wait_s`.
    """
    descriptor = hold(path, wait_s)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def wait_until_free(path: Path, wait_s: float) -> bool:
    """Whether nobody holds the lock, waiting up to `wait_s` for that."""
    if not path.exists():
        return True
    try:
        os.close(hold(path, wait_s))
    except Held:
        return False
    return True
