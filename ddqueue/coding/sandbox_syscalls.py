"""The Linux calls that the sandbox needs and Python 3.11 has no function for. Standard library only."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18

_MNT_DETACH = 2
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
_SIGKILL = 9
_LAST_CAPABILITY = 63
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_MOUNT_SETATTR = 442

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    """`struct mount_attr`; its first flags have the values of MS_RDONLY, MS_NOSUID, MS_NODEV and MS_NOEXEC."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def unshare(flags: int) -> None:
    """Leave the caller's namespaces of these kinds. Raises OSError."""
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2). Raises OSError, which names the target."""
    result = _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode())
    _check(result, f"mount {target}")


def bind_read_only(source: str, target: str, extra_flags: int = MS_NODEV) -> None:
    """Show `source`, with whatever is mounted below it, at `target`, where nothing can be changed or gain privilege.

    Raises OSError; ENOSYS on a kernel before Linux 5.12.
    """
    mount(source, target, flags=MS_BIND | MS_REC)
    attributes = _MountAttributes(attr_set=MS_RDONLY | MS_NOSUID | extra_flags)
    result = _libc.syscall(
        ctypes.c_long(_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        ctypes.c_char_p(target.encode()),
        ctypes.c_uint(_AT_RECURSIVE),
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    _check(result, f"make {target} read-only (needs Linux 5.12)")


def pivot_root(new_root: str, old_root: str) -> None:
    """pivot_root(2). Raises OSError."""
    number = _PIVOT_ROOT[os.uname().machine]
    _check(_libc.syscall(ctypes.c_long(number), new_root.encode(), old_root.encode()), "pivot_root")


def detach(target: str) -> None:
    """Unmount `target` and everything below it, in use or not. Raises OSError."""
    _check(_libc.umount2(target.encode(), _MNT_DETACH), f"unmount {target}")


def set_host_name(name: str) -> None:
    """sethostname(2). Raises OSError."""
    _check(_libc.sethostname(name.encode(), ctypes.c_size_t(len(name))), "sethostname")


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends."""
    prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def forbid_tracing() -> None:
    """Nobody without privilege may attach to this process or read its memory."""
    prctl(_PR_SET_DUMPABLE, 0)


def forbid_new_privileges() -> None:
    """No program started from here gains anything by setuid or file capabilities; inherited, and for good."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities_for_good() -> None:
    """Empty the bounding set as far as this process may, so that no later exec can hand a capability out."""
    for capability in range(_LAST_CAPABILITY + 1):
        if _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) != 0:
            return


def prctl(option: int, argument: int, pointer: object = None) -> None:
    """prctl(2) with up to two arguments. Raises OSError."""
    result = _libc.prctl(option, ctypes.c_ulong(argument), pointer, ctypes.c_ulong(0), ctypes.c_ulong(0))
    _check(result, f"prctl {option}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
