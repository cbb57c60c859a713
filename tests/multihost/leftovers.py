"""What a run may leave on the machine, and how it is taken away: at the end of a run, and at the start of the next."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path

from . import cgroups, network
from .commands import output

STATE = Path("/var/lib/ddqueue-multihost")
"""Everything a run writes, but for the cached base system. `nobody`, who runs Postgres, can enter its parents."""

BOXES = ("sim-rtx6000", "sim-b300", "desk")
"""The names of a run's boxes: their network ports outlive every other trace for a moment."""

_LIMIT_S = 30.0


def found() -> list[str]:
    """What is there now, one line each; empty when the machine is as it was."""
    return [
        *(f"process {pid}: {command}" for pid, command in _processes().items()),
        *(f"mount {point}" for point in _mounts()),
        *(f"cgroup of box {box}" for box in cgroups.boxes()),
        *([f"bridge {network.BRIDGE}"] if network.bridge_exists() else []),
        *(f"network port of box {box}" for box in _boxes() if network.is_plugged_in(box)),
        *([f"folder {STATE}"] if STATE.exists() else []),
    ]


def remove() -> None:
    """Nothing when there is nothing. Raises TimeoutError when something cannot be ended."""
    for box in _boxes():
        cgroups.kill(box)
    deadline = time.monotonic() + _LIMIT_S
    while processes := _processes():
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError(f"cannot be ended: {processes}")
        time.sleep(0.1)
    for box in _boxes():
        cgroups.remove(box)
    cgroups.remove_parent()
    for point in _mounts():
        output("umount", point)
    for box in _boxes():
        network.unplug(box)
    network.remove_bridge()
    if STATE.exists():
        # Through a mount that stayed it would reach what is not ours.
        if points := _mounts():
            raise TimeoutError(f"still mounted: {points}")
        shutil.rmtree(STATE)


def _boxes() -> list[str]:
    """Names that a box of any run may have."""
    return sorted({*cgroups.boxes(), *BOXES})


def _processes() -> dict[int, str]:
    """Processes that name the state folder on their command line or were started with it in their environment."""
    mine = os.getpid()
    marked = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == mine:
            continue
        try:
            command, environment = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:
            continue
        if os.fsencode(STATE) in command or os.fsencode(STATE) in environment:
            marked[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace").strip()[:120]
    return marked


def _mounts() -> list[Path]:
    """Mounts below the state folder, the innermost first."""
    points = [Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted((point for point in points if STATE in point.parents), key=lambda point: -len(point.parts))
