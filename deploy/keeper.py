"""Who keeps a box's services running: what systemd and supervisord have in common here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from deploy.installation import Installation, PlacedFile
from deploy.services import Service

START_LIMIT_S = 240.0
"""More than a unit gives its service to start, so that systemd's own word comes first."""


@dataclass(frozen=True)
class ServiceState:
    """One service now. `text` is how its keeper says it."""

    service: Service
    active: bool
    pid: int | None
    starts: int
    """Counts its starts since it was last told to start; 0 where the keeper does not count."""
    text: str


class Keeper(Protocol):
    """One box's. Every method may raise BoxRefused and NotReachable."""

    name: str

    def files(self, services: Sequence[Service], host: str | None, stop_limit_s: float) -> list[PlacedFile]:
        """What it must read to know the services; pure."""
        ...

    def states(self, services: Sequence[Service]) -> list[ServiceState]:
        """How each is now; one that is not installed is not active."""
        ...

    def start(self, installation: Installation) -> None:
        """Start the installation's services anew, now and at every boot, by the files that are there."""
        ...

    def stop(self, installation: Installation) -> None:
        """Stop its services, and let none start at a boot."""
        ...

    def forget(self, installation: Installation) -> None:
        """Leave nothing of stopped services behind, once their files are gone."""
        ...

    def log_script(self, service: Service, lines: int, follow: bool) -> str:
        """A shell script that prints the end of the service's log."""
        ...
