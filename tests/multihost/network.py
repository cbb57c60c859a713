"""The wire between the boxes and the control host: a bridge, and cuts that drop packets at a box's port of it."""

from __future__ import annotations

from pathlib import Path

from .commands import output, succeeds

BRIDGE = "ddq-br"
_BRIDGE_MAC = "02:79:00:00:00:01"
"""Fixed: a bridge that takes its ports' addresses changes its own when a box comes or goes."""

CONTROL_ADDRESS = "10.79.0.1"
ADDRESSES = ("10.79.0.2", "10.79.0.3", "10.79.0.4")
"""For the fleet's boxes."""
CONTAINER_ADDRESS = "10.79.0.5"
NETWORK = "10.79.0.0/24"
PREFIX_BITS = 24

_DEVICES = Path("/sys/class/net")

# Classic BPF for `tc`: everything but ARP is dropped (2 is TC_ACT_SHOT). An unanswered ARP would tell a client "no
# route to host" after three seconds, and a cut behind the first router, the usual one, tells it nothing at all.
_DROP_ALL_BUT_ARP = "4,40 0 0 12,21 0 1 2054,6 0 0 0,6 0 0 2"


def make_bridge() -> None:
    output("ip", "link", "add", BRIDGE, "address", _BRIDGE_MAC, "type", "bridge")
    output("ip", "address", "add", f"{CONTROL_ADDRESS}/{PREFIX_BITS}", "dev", BRIDGE)
    output("ip", "link", "set", BRIDGE, "up")


def bridge_exists() -> bool:
    return (_DEVICES / BRIDGE).exists()


def remove_bridge() -> None:
    """Whatever hangs on it loses its network. Nothing when there is none."""
    if bridge_exists():
        output("ip", "link", "delete", BRIDGE)


def port_of(box: str) -> str:
    """The box's port of the bridge: the name that systemd-nspawn gives it, at most 15 characters."""
    return f"vb-{box}"


def is_plugged_in(box: str) -> bool:
    return (_DEVICES / port_of(box)).exists()


def unplug(box: str) -> None:
    """Remove the port of a box that is off: the kernel does it too, but only some time after the last process."""
    if is_plugged_in(box) and not succeeds("ip", "link", "delete", port_of(box)) and is_plugged_in(box):
        raise RuntimeError(f"the port of {box} cannot be removed")


def cut(box: str) -> None:
    """Drop every packet from and to the box. Its own interface keeps its carrier and sees no error."""
    output("tc", "qdisc", "add", "dev", port_of(box), "clsact")
    for direction in ("ingress", "egress"):
        output(*("tc", "filter", "add", "dev", port_of(box), direction), *("bpf", "da", "bytecode", _DROP_ALL_BUT_ARP))


def heal(box: str) -> None:
    """Undo `cut`; nothing when the port is not cut or not there (a box that is off)."""
    if is_plugged_in(box) and "clsact" in output("tc", "qdisc", "show", "dev", port_of(box)):
        output("tc", "qdisc", "delete", "dev", port_of(box), "clsact")
