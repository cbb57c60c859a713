"""A box as a rented container is: sshd and a network, and no systemd; what it runs ends with it."""

from __future__ import annotations

from . import network
from .booted_box import BootedBox

_FIRST = """#!/bin/sh
ip link set lo up
ip address add {address}/{bits} dev host0
ip link set host0 up
ip route add default via {gateway}
mkdir -p /run/sshd
exec /usr/sbin/sshd -D
"""


class ContainerBox(BootedBox):
    """Implements Box, but for services: there is nobody to start them."""

    kind = "container: sshd of its own, no systemd"
    start_options = ("--as-pid2",)

    def first_program(self) -> str:
        return _FIRST.format(address=self.address, bits=network.PREFIX_BITS, gateway=network.CONTROL_ADDRESS)
