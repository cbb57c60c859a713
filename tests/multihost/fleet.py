"""Everything a multi-host test needs, made in order and taken down in the opposite one: the wire, the control host's
servers and command line, the dispatcher's host, two GPU boxes."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from installation import Installation

from ddqueue.files.examples import example

from . import base_system, cgroups, leftovers, network, requirements
from .booted_box import BootedBox
from .box import Box
from .install import Release
from .keys import Keys
from .ledger import wait_until
from .namespace_box import NamespaceBox
from .servers import ControlServers

*GPU_BOXES, DESK = leftovers.BOXES
"""The desk is where the dispatcher runs: apart from the servers, so that it can be cut off from them."""

WORKER, DISPATCHER = "ddqueue-worker", "ddqueue-dispatcher"

WAITS = {"DDQUEUE_LEASE_TTL_S": "6", "DDQUEUE_WAKE_AGAIN_AFTER_S": "2", "DDQUEUE_DATABASE_AWAY_S": "300"}
"""Short, so that a lease runs out within a cut: expiry must not let a job run twice."""

_SINGLE = "\0ddqueue-multihost"
"""A socket's name, which the kernel frees with its owner: one fleet at a time on a machine."""


class Fleet:
    """Boxes by name, and the control host's side."""

    def __init__(
        self,
        boxes: dict[str, Box],
        desk: Box,
        servers: ControlServers,
        control: Installation,
        keys: Keys,
        kind: str,
        release: Release,
    ) -> None:
        self.boxes = boxes
        self.desk = desk
        self.servers = servers
        self.control = control
        self.keys = keys
        self.kind = kind
        """What the GPU boxes are, with the reason where they are the lesser kind."""
        self.release = release

    def lock_of(self, box: str) -> str:
        """The host's kernel lock, as the box names it."""
        return f"{self.boxes[box].home}/locks/{box}.lock"

    def journals(self, box: str) -> list[Path]:
        """The journals of the box's attempts that are not yet stored."""
        return sorted(self.boxes[box].outside(f"{self.boxes[box].home}/journal/{box}").glob("attempt-*.jsonl"))

    def install_workers(self) -> None:
        """Put a worker on each GPU box."""
        for name, box in self.boxes.items():
            self._install(box, WORKER, "worker", "--host", name)

    def install_dispatcher(self) -> None:
        self._install(self.desk, DISPATCHER, "dispatcher")

    def _install(self, box: Box, service: str, *arguments: str) -> None:
        urls = {"DDQUEUE_DATABASE_URL": self.servers.database_url, "DDQUEUE_REDIS_URL": self.servers.redis_url}
        inventory = example("inventory-sim.yaml")
        self.release.install(box, service, *arguments, settings=urls | WAITS, inventory=inventory)

    def wait_ready(self) -> None:
        """Returns when every worker listens and the dispatcher leads."""
        for box in self.boxes.values():
            wait_for_line(box, WORKER, " ready.")
        wait_for_line(self.desk, DISPATCHER, " leading")

    def cut(self, *boxes: str) -> None:
        for box in boxes:
            network.cut(box)

    def heal(self, *boxes: str) -> None:
        for box in boxes:
            network.heal(box)


@contextmanager
def fleet(say: Callable[[str], None]) -> Iterator[Fleet]:
    """A running fleet with an idle worker on each GPU box; nothing of it is left at the end, whatever ends it.

    `say` hears how long each step took. For the main thread. Raises CommandFailed, DdqueueError or RuntimeError.
    """
    with ExitStack() as undo:
        _be_the_only_one(undo)
        _end_in_order_on_sigterm(undo)
        leftovers.remove()
        undo.callback(leftovers.remove)
        state = leftovers.STATE
        state.mkdir(mode=0o755)
        release = Release(state / "release")
        keys = Keys(state / "keys")
        network.make_bridge()
        undo.callback(network.remove_bridge)
        with timed(say, "Postgres and Valkey on the bridge"):
            servers = ControlServers(state / "control")
            undo.callback(servers.stop)
            servers.start()
            control = Installation(state / "person", servers.database_url, servers.redis_url)
            undo.callback(control.stop)
            control.set("PYTHONPATH", str(release.folder))
            control.run("db", "upgrade")
        boxes, kind = _make_boxes(state, release, keys, undo, say)
        desk = NamespaceBox(DESK, network.ADDRESSES[-1], state / DESK)
        undo.callback(desk.remove)
        made = Fleet(boxes, desk, servers, control, keys, kind, release)
        with timed(say, "boot of all boxes"):
            for box in (*boxes.values(), desk):
                box.boot()
        with timed(say, "ddqueue on every box"):
            made.install_workers()
            made.install_dispatcher()
            made.wait_ready()
        yield made


def wait_for_line(box: Box, service: str, words: str) -> None:
    """Returns when the service's log has a line with these words."""
    wait_until(lambda: words in box.log(service), f"{service} on {box.name} never said {words!r}")


@contextmanager
def timed(say: Callable[[str], None], what: str) -> Iterator[None]:
    started_s = time.monotonic()
    yield
    say(f"{what}: {time.monotonic() - started_s:.1f} s")


def _be_the_only_one(undo: ExitStack) -> None:
    single = undo.enter_context(socket.socket(socket.AF_UNIX))
    try:
        single.bind(_SINGLE)
    except OSError:
        raise RuntimeError("another multi-host run uses this machine") from None


def _end_in_order_on_sigterm(undo: ExitStack) -> None:
    """As on ^C: what runs the tests ends a run that takes too long by SIGTERM, which would leave everything there."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    undo.callback(signal.signal, signal.SIGTERM, before)


def _make_boxes(
    state: Path, release: Release, keys: Keys, undo: ExitStack, say: Callable[[str], None]
) -> tuple[dict[str, Box], str]:
    boxes: dict[str, Box] = {}
    reason = requirements.why_not_booted()
    if reason is None:
        undo.callback(cgroups.unmount, cgroups.mount_missing())
        with timed(say, "base system"):
            base = base_system.tree()
        undo.callback(cgroups.remove_parent)
    for name, address in zip(GPU_BOXES, network.ADDRESSES, strict=False):
        folder = state / name
        if reason is None:
            boxes[name] = BootedBox(name, address, folder, base, keys, release.shared_folders)
        else:
            boxes[name] = NamespaceBox(name, address, folder)
        undo.callback(boxes[name].remove)
    kind = next(iter(boxes.values())).kind
    return boxes, kind if reason is None else f"{kind}; not booted: {reason}"
