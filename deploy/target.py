"""Which machine a name on the command line means."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ddqueue.domain.inventory import Host, Inventory
from ddqueue.errors import UsageError

_ADDRESS = re.compile(
    r"(?:(?P<user>[A-Za-z_][A-Za-z0-9_.-]*)@)?"
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<host>[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)


@dataclass(frozen=True)
class Target:
    """A machine to deploy to. What is None comes from ~/.ssh/config, else from ssh's own defaults.

    `host` is the inventory's entry, for a worker; None = a machine that is no GPU host, such as the control machine.
    """

    name: str
    address: str
    user: str | None
    port: int | None
    host: Host | None


def find_target(name: str, inventory: Inventory, user: str | None = None, port: int | None = None) -> Target:
    """The inventory's host of that name, at its `address`; any other name is an address itself.

    `user` and `port` are the command line's, and count more than the address's own.

    Raises:
        UsageError: it can be no address.
    """
    host = inventory.hosts.get(name)
    address = (host.address if host is not None else None) or name
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"] or 22) < 65536:
        where = f"the address {address!r} of {name} in {inventory.file}" if host is not None else repr(name)
        raise UsageError(f"{where} is no ssh address; write user@host, user@host:2222 or a name of ~/.ssh/config")
    its_port = int(found["port"]) if found["port"] else None
    return Target(name, found["six"] or found["host"], user or found["user"], port or its_port, host)
