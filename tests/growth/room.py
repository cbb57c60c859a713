"""A /dev/shm of this program's own, so that what lies there in the end is ddqueue's."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

_CLONE_NEWNS = 0x00020000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000


def own_shared_memory() -> bool:
    """Mount an empty one for this process and all that it will start; False where that is not allowed.

    It needs root; the namespace, and with it the mount, ends with its last process.
    """
    if os.geteuid() != 0:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    # Private first: else the mount would reach whoever has this one's propagated to it.
    steps: tuple[Callable[[], int], ...] = (
        lambda: libc.unshare(_CLONE_NEWNS),
        lambda: libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None),
        lambda: libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"mode=1777"),
    )
    return all(step() == 0 for step in steps)
