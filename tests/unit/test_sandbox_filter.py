"""The seccomp filter, executed: what each system call of each architecture gets."""

from __future__ import annotations

import errno
import struct

import pytest

from ddqueue.coding.sandbox_filter import filter_for

ALLOWED, REFUSED, ABSENT, KILLED = 0x7FFF_0000, 0x0005_0000 | errno.EPERM, 0x0005_0000 | errno.ENOSYS, 0x8000_0000
X86_64, AARCH64 = 0xC000_003E, 0xC000_00B7
PTHREAD_FLAGS = 0x003D_0F00
"""What the C library clones a thread with."""


def verdict(machine: str, architecture: int, number: int, first_argument: int = 0) -> int:
    """The value a kernel's classic BPF machine returns for this call."""
    program = list(struct.iter_unpack("<HBBI", filter_for(machine)))
    data = struct.pack("<IIQ6Q", number, architecture, 0, first_argument, 0, 0, 0, 0, 0)
    at, accumulator = 0, 0
    while True:
        code, if_true, if_false, operand = program[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif code == 0x06:
            return operand
        else:
            taken = {
                0x15: accumulator == operand,
                0x35: accumulator >= operand,
                0x45: bool(accumulator & operand),
            }[code]
            at += if_true if taken else if_false


@pytest.mark.parametrize(
    ("machine", "architecture", "calls"),
    [
        ("x86_64", X86_64, {"ptrace": 101, "shmget": 29, "memfd_create": 319, "unshare": 272, "bpf": 321}),
        ("aarch64", AARCH64, {"ptrace": 117, "shmget": 194, "memfd_create": 279, "unshare": 97, "bpf": 280}),
    ],
)
def test_calls_without_a_use_here_are_refused(machine: str, architecture: int, calls: dict[str, int]) -> None:
    assert {name: verdict(machine, architecture, number) for name, number in calls.items()} == dict.fromkeys(
        calls, REFUSED
    )


@pytest.mark.parametrize(
    ("machine", "architecture", "numbers"),
    [
        # read write open mmap brk fork execve exit_group openat getrandom
        ("x86_64", X86_64, (0, 1, 2, 9, 12, 57, 59, 231, 257, 318)),
        ("aarch64", AARCH64, (63, 64, 222, 214, 221, 94, 56, 278)),
    ],
)
def test_what_a_program_needs_is_allowed(machine: str, architecture: int, numbers: tuple[int, ...]) -> None:
    assert {verdict(machine, architecture, number) for number in numbers} == {ALLOWED}


@pytest.mark.parametrize(
    ("machine", "architecture", "clone", "prlimit", "socket"),
    [("x86_64", X86_64, 56, 302, 41), ("aarch64", AARCH64, 220, 261, 198)],
)
def test_calls_are_judged_by_their_first_argument(
    machine: str, architecture: int, clone: int, prlimit: int, socket: int
) -> None:
    def of(number: int, argument: int) -> int:
        return verdict(machine, architecture, number, argument)

    assert of(clone, PTHREAD_FLAGS) == ALLOWED
    assert {of(clone, flag) for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000)} == {REFUSED}
    assert of(clone, 0x4000_0000) == REFUSED
    assert verdict(machine, architecture, 435) == ABSENT
    assert [of(prlimit, pid) for pid in (0, 1, 2)] == [ALLOWED, REFUSED, REFUSED]
    assert [of(socket, family) for family in (1, 2, 10)] == [ALLOWED] * 3
    assert [of(socket, family) for family in (0, 3, 16, 17, 38, 40)] == [REFUSED] * 6


def test_another_instruction_set_is_no_way_round() -> None:
    assert verdict("x86_64", 0x4000_0003, 26) == KILLED  # i386's ptrace
    assert verdict("x86_64", X86_64, 0x4000_0000 + 521) == REFUSED  # x32's ptrace


def test_a_machine_whose_calls_are_not_known_is_a_fault() -> None:
    with pytest.raises(OSError, match="x86_64 and aarch64, not of riscv64"):
        filter_for("riscv64")
