"""One box of one run, with everything that its steps work with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ddqueue.domain.inventory import Host, Inventory
from ddqueue.errors import UsageError
from deploy import configuration
from deploy.configuration import Shared
from deploy.connection import BoxConnection
from deploy.control_side import ControlSide
from deploy.history import History
from deploy.installation import Installation
from deploy.keeper import Keeper
from deploy.narration import Narrator
from deploy.services import Service
from deploy.target import Target


@dataclass(frozen=True)
class Wishes:
    """What the command line asks for."""

    services: tuple[Service, ...] = ()
    """Beside what runs there already; empty = only that, or the worker where nothing does."""
    python: str | None = None
    """The box's interpreter; None = the best one that it has."""
    wheelhouse: Path | None = None
    """Wheels for a box without a registry; None = the box's own pip knows where to go."""
    fill: bool = False
    """Download on this side what the wheelhouse lacks."""
    now: bool = False
    """Stop the running attempt instead of waiting for its end."""
    keep_state: bool = False
    force: bool = False
    """Remove without asking the queue, and what was measured and is not yet stored, too."""
    flower_address: str = "127.0.0.1"


@dataclass(frozen=True)
class Subject:
    """`by` is who deploys: for the box's history, and for whoever finds a host held."""

    target: Target
    box: BoxConnection
    keeper: Keeper
    history: History
    control: ControlSide
    inventory: Inventory
    shared: Shared
    wishes: Wishes
    narrator: Narrator
    by: str

    def services(self) -> tuple[Service, ...]:
        """What the box is to run: what it runs now, and what is asked for."""
        newest = self.history.newest()
        there = newest.services if newest is not None else ()
        wanted = {*there, *(self.wishes.services or (() if there else (Service.WORKER,)))}
        return tuple(service for service in Service if service in wanted)

    def worker_host(self, services: tuple[Service, ...]) -> Host | None:
        """The host that its worker serves; None when it runs none.

        Raises:
            UsageError: the inventory does not have it, or the box serves another one.
        """
        newest = self.history.newest()
        if newest is not None and newest.host is not None and newest.host != self.target.name:
            raise UsageError(
                f"{self.box.place} is {newest.host}, not {self.target.name}: correct the address in "
                f"{self.inventory.file}, or take it away first: ddqueue deploy {newest.host} --remove"
            )
        if Service.WORKER not in services:
            return None
        if self.target.host is None:
            known = ", ".join(sorted(self.inventory.hosts)) or "none"
            raise UsageError(
                f"{self.target.name} is no host of {self.inventory.file} ({known}), so that it can have no worker; for "
                f"the control machine: ddqueue deploy {self.target.name} --service dispatcher --service flower"
            )
        return self.target.host

    def installation(self, release: str, services: tuple[Service, ...], host: Host | None) -> Installation:
        """What the box is to have, with this release. Raises UsageError."""
        limit_s = configuration.stop_limit_s(host)
        name = None if host is None else host.name
        files = (
            *configuration.files_of(self.shared, services),
            *self.keeper.files(services, name, limit_s),
        )
        return Installation(release, services, files, name, limit_s)
