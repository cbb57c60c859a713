"""The configuration of a box, made from the inventory and from this side's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ddqueue import settings
from ddqueue.domain.inventory import Host
from ddqueue.errors import UsageError
from deploy import layout
from deploy.installation import PlacedFile
from deploy.services import Service

_PRIVATE = 0o600
_ESCAPED = '\\"$`'
"""What is escaped between double quotes, by systemd and by a shell alike."""
_ATTEMPT_END_S = 300.0
"""A server's stop, the release of its memory, and the last words to Postgres and the broker."""
_TRIES_TO_GIVE_BACK = 4
"""Three by the worker, one by its unit."""


@dataclass(frozen=True)
class Shared:
    """What every box gets from this side. The URLs hold passwords."""

    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)
    inventory: bytes = field(repr=False)
    waits: Mapping[str, str]
    """DDQUEUE_ variables of Patience that are set here, so that all sides wait alike."""
    flower_login: Callable[[], tuple[str, str]]
    """Who may look at Flower: user and password; asked only for a box that runs it. Raises UsageError."""


def files_of(shared: Shared, services: tuple[Service, ...]) -> list[PlacedFile]:
    """The files in the configuration's folder.

    Raises:
        UsageError: Flower is wanted without a password, or a value cannot be written.
    """
    environment = {
        settings.DATABASE: shared.database_url,
        settings.REDIS: shared.redis_url,
        settings.INVENTORY: layout.INVENTORY,
        settings.HOME: layout.STATE,
        **shared.waits,
    }
    files = [
        PlacedFile(layout.ENVIRONMENT, environment_file(environment), _PRIVATE),
        PlacedFile(layout.INVENTORY, shared.inventory),
    ]
    if Service.FLOWER in services:
        user, password = shared.flower_login()
        login = {settings.FLOWER_USER: user, settings.FLOWER_PASSWORD: password}
        # Read after the other, so that this folder counts: the service's own, under another account.
        own = {**login, settings.HOME: f"{layout.STATE}-flower"}
        files.append(PlacedFile(layout.FLOWER_ENVIRONMENT, environment_file(own), _PRIVATE))
    return files


def environment_file(variables: Mapping[str, str]) -> bytes:
    """The variables as a file that systemd and a shell read alike. Raises UsageError for a value with a line end."""
    lines = ["# Written by `ddqueue deploy`, which overwrites it."]
    for name, value in variables.items():
        if "\n" in value or "\r" in value or "\0" in value:
            raise UsageError(f"{name} holds a line end, and cannot be written into {layout.ENVIRONMENT}")
        escaped = "".join(f"\\{character}" if character in _ESCAPED else character for character in value)
        lines.append(f'{name}="{escaped}"')
    return ("\n".join(lines) + "\n").encode()


def stop_limit_s(host: Host | None) -> float:
    """The longest that stopping a box's services may take: an attempt's end, and giving a borrowed box back."""
    borrowed_s = _TRIES_TO_GIVE_BACK * host.borrow.limit_s if host is not None and host.borrow is not None else 0.0
    return _ATTEMPT_END_S + borrowed_s
