"""What a test may do with a box, whichever way it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Service:
    """A process that the box starts when it boots, and again when it ends."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    """May hold secrets: kept in a file that only root can read."""


class Box(Protocol):
    """One host. Times in its logs are UTC, and this machine's."""

    name: str
    address: str
    kind: str
    """What the box has and lacks, in words."""
    home: str
    """Where ddqueue keeps its state, as the box sees it."""

    def boot(self) -> None:
        """Returns when commands can be run in it and its services were started."""
        ...

    def power_cut(self) -> None:
        """End every process of it at once; the disk stays."""
        ...

    def shut_down(self) -> None:
        """Let it end in good order; returns when it is off."""
        ...

    def is_on(self) -> bool: ...

    def run(self, *argv: str, limit_s: float = 60.0) -> str:
        """What the command, run as root in the box, wrote. Raises CommandFailed."""
        ...

    def outside(self, path: str) -> Path:
        """Where a file of the box lies on this machine; also while the box is cut off or off."""
        ...

    def enable(self, service: Service) -> None:
        """Install the service, and start it if the box is on."""
        ...

    def log(self, service: str) -> str:
        """What the service wrote since it was installed, over reboots too."""
        ...

    def remove(self) -> None:
        """Power off at once and leave nothing of it."""
        ...
