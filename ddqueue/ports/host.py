"""One GPU host: its GPUs, the lock on it, and what is done when it is borrowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from ddqueue.domain.borrowing import CommandEnd, Loan, RunningCommand
from ddqueue.domain.telemetry import GpuSample


class TroubleKind(StrEnum):
    """Why a GPU that answers must not be used."""

    MIG = "MIG"
    """It is cut into instances; a server needs whole GPUs."""
    COMPUTE_MODE = "compute mode"
    """It takes one process only, or none."""
    ECC = "ECC"
    """Uncorrectable memory errors since the driver was loaded."""
    ROW_REMAP = "row remap"
    """A bad row waits to be replaced, which a reset does, or could not be replaced."""
    RECOVERY = "recovery"
    """After an Xid the driver asks for a reset or a reboot before the GPU is used again."""
    UNREADABLE = "unreadable"
    """A query gave no answer, so that nobody can say whether the GPU is idle."""


@dataclass(frozen=True)
class GpuTrouble:
    """One reason not to use a GPU; `text` is the reading that says so."""

    kind: TroubleKind
    text: str


@dataclass(frozen=True)
class GpuReading:
    """One GPU at one moment. `uuid` names it for ever; `index` is the PCI order.

    `memory_used_mib` leaves out what the driver keeps for itself. `utilization_percent` is None where the driver cannot
    say. `troubles` is empty for a GPU that may be used.
    """

    index: int
    uuid: str
    name: str
    memory_total_mib: int
    memory_used_mib: int
    utilization_percent: int | None
    pids: tuple[int, ...]
    pci_bus_id: str = ""
    troubles: tuple[GpuTrouble, ...] = ()


class GpuInspector(Protocol):
    """Reads GPUs; never changes a setting. Raises AttemptFailure(GPU_LOST) when they cannot be read."""

    def read(self) -> list[GpuReading]:
        """Every GPU, in PCI order, whatever CUDA_VISIBLE_DEVICES says."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """What an attempt remembers of them, as plain JSON values: `gpus`, in PCI order, and what is between them.

        What a driver cannot say is null: a description is never a reason to refuse a GPU.
        """
        ...


class Recording(Protocol):
    """What the GPUs did while they were watched."""

    def samples(self) -> Sequence[GpuSample]:
        """All so far, in order of time. Once the watching has ended there is one of each GPU from after its end."""
        ...


class Telemetry(Protocol):
    """Watches a host's GPUs beside a measurement, which it never disturbs: what cannot be read is a gap."""

    def watch(self) -> AbstractContextManager[Recording]:
        """Read the GPUs again and again, from before the body begins until after it has ended. One at a time.

        Put the whole window inside, and ask for the samples afterwards: only then do they reach beyond both its ends.
        """
        ...


class CleanRoom(Protocol):
    """Proof that a host's GPUs are free."""

    def prove_clean(self, should_stop: Callable[[], None]) -> list[GpuReading]:
        """Return the readings once every GPU is idle; raise AttemptFailure(GPU_BUSY, GPU_LOST or SHM_FULL) else."""
        ...

    def prove_released(self) -> list[GpuReading]:
        """Return once every GPU is back at idle; raise AttemptFailure(GPU_NOT_RELEASED) past the deadline."""
        ...


class HostLock(Protocol):
    """The kernel's lock on a host's GPUs; inherited by the server, so that an orphan keeps it."""

    @property
    def fd(self) -> int: ...

    @property
    def path(self) -> str: ...

    def note_server(self, pid: int) -> None:
        """Record the server's session leader beside the lock, for whoever recovers."""
        ...


class Ownership(Protocol):
    """Who may use a host's GPUs."""

    def own(self, host: str) -> AbstractContextManager[HostLock | None]:
        """Take the lock, ending a dead runner's left-overs first; None when a live runner holds it.

        Raises AttemptFailure(GPU_BUSY) when a process we did not start keeps it.
        """
        ...

    def strays(self, host: str) -> list[int]:
        """Processes that carry the mark of the host's lock, other than the caller."""
        ...

    def end_strays(self, host: str) -> list[int]:
        """Kill those until none is left; only for the lock's holder. Returns the pids met."""
        ...


class LoanRecord(Protocol):
    """What a host remembers of being borrowed, so that a crash at any moment is followed by giving it back."""

    def read(self) -> Loan | None:
        """None when the box is not borrowed. One that cannot be read is a loan without terms, never None."""
        ...

    def write(self, loan: Loan) -> None:
        """On the disk when it returns. Raises OSError; then what was noted before still stands."""
        ...

    def remove(self) -> None:
        """The box is given back. Raises OSError."""
        ...


class HostCommands(Protocol):
    """Runs a person's commands on this host."""

    def boot(self) -> str:
        """Names this boot of the machine; another one names another."""
        ...

    def run(
        self,
        command: Sequence[str],
        limit_s: float,
        should_stop: Callable[[], None],
        started: Callable[[RunningCommand], None],
    ) -> CommandEnd:
        """Run to the end, or end it with its process group past `limit_s`. It does nothing before `started` has
        returned. What `started` or `should_stop` raises is passed on once the command has been ended."""
        ...

    def end(self, command: RunningCommand) -> None:
        """Kill what is left of a command whose runner died; for the same boot only."""
        ...
