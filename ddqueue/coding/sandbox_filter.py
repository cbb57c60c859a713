"""A seccomp filter for the program in the sandbox: a second wall behind the namespaces. Standard library only.

It closes what the other bounds cannot see: memory that belongs to no process (System V segments, anonymous files),
changing the limits of the keeper, which has the same user when there is no root, and parts of the kernel that a coding
problem never needs.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from ddqueue.coding.sandbox_syscalls import prctl

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2

_LOAD_WORD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF_0000, 0x8000_0000, 0x0005_0000 | errno.EPERM
_ABSENT = 0x0005_0000 | errno.ENOSYS
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16

_X32_NUMBERS_FROM = 0x4000_0000
"""x86-64 kernels answer a second set of numbers, by which every refusal could be walked around."""

_ANY_NEW_NAMESPACE = 0x7E02_0000
_FAMILIES = (1, 2, 10)
"""AF_UNIX, AF_INET and AF_INET6: those that the network namespace confines; AF_VSOCK, for one, reaches out of it."""

_ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}

_REFUSED = {
    # name: (x86_64, aarch64)
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "personality": (135, 92),
}
_CLONE, _CLONE3, _PRLIMIT, _SOCKET = (56, 220), (435, 435), (302, 261), (41, 198)


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install() -> None:
    """Filter this process and all it will start, for good; needs `no_new_privs`. Raises OSError.

    Raises OSError(ENOSYS) on a machine whose call numbers are not in the table.
    """
    program = filter_for(os.uname().machine)
    prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_Program(len(program) // 8, program)))


def filter_for(machine: str) -> bytes:
    """The filter as classic BPF, 8 bytes an instruction, for `x86_64` or `aarch64`; OSError(ENOSYS) for others."""
    if machine not in _ARCHITECTURES:
        known = " and ".join(_ARCHITECTURES)
        raise OSError(errno.ENOSYS, f"the sandbox knows the system calls of {known}, not of {machine}")
    column = list(_ARCHITECTURES).index(machine)
    load_number = _instruction(_LOAD_WORD, _NUMBER_AT)
    load_argument = _instruction(_LOAD_WORD, _FIRST_ARGUMENT_AT)

    program = [
        _instruction(_LOAD_WORD, _ARCHITECTURE_AT),
        _instruction(_IF_EQUAL, _ARCHITECTURES[machine], if_true=1),
        _instruction(_RETURN, _KILL),
        load_number,
        _instruction(_IF_AT_LEAST, _X32_NUMBERS_FROM, if_false=1),
        _instruction(_RETURN, _REFUSE),
    ]
    for numbers in _REFUSED.values():
        program += [_instruction(_IF_EQUAL, numbers[column], if_false=1), _instruction(_RETURN, _REFUSE)]
    # Its flags lie in memory, where a filter cannot look; on ENOSYS the C library uses clone instead.
    program += [_instruction(_IF_EQUAL, _CLONE3[column], if_false=1), _instruction(_RETURN, _ABSENT)]

    program += [
        _instruction(_IF_EQUAL, _CLONE[column], if_false=3),
        load_argument,
        _instruction(_IF_ANY_BIT, _ANY_NEW_NAMESPACE, if_false=1),
        _instruction(_RETURN, _REFUSE),
        load_number,
        # The process whose limits are asked for: 0 is the caller itself.
        _instruction(_IF_EQUAL, _PRLIMIT[column], if_false=3),
        load_argument,
        _instruction(_IF_EQUAL, 0, if_true=1),
        _instruction(_RETURN, _REFUSE),
        load_number,
        _instruction(_IF_EQUAL, _SOCKET[column], if_false=2 + len(_FAMILIES)),
        load_argument,
        *(_instruction(_IF_EQUAL, family, if_true=len(_FAMILIES) - i) for i, family in enumerate(_FAMILIES)),
        _instruction(_RETURN, _REFUSE),
        _instruction(_RETURN, _ALLOW),
    ]
    return b"".join(program)


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One `struct sock_filter`; the jumps are relative to the instruction after it."""
    return struct.pack("<HBBI", code, if_true, if_false, operand)
