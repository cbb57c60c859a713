"""A control group per box: what belongs to it, and the power switch. Works with version 2 alone and with both."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from .commands import output

_ROOT = Path("/sys/fs/cgroup")
_GROUP = "ddqueue-boxes"
_LIMIT_S = 60.0


def mount_missing() -> list[Path]:
    """Mount what systemd in a box needs beside version 1's controllers; returns what was mounted, for `unmount`."""
    if _version_2_alone():
        return []
    mounted = []
    for folder, words in (
        (_ROOT / "systemd", ("-t", "cgroup", "-o", "none,name=systemd", "cgroup")),
        (_ROOT / "unified", ("-t", "cgroup2", "cgroup2")),
    ):
        if not folder.is_mount():
            folder.mkdir(exist_ok=True)
            output("mount", *words, folder)
            mounted.append(folder)
    return mounted


def unmount(mounted: list[Path]) -> None:
    for folder in mounted:
        output("umount", folder)
        folder.rmdir()


def make(box: str) -> list[Path]:
    """The box's group in every hierarchy: without its own, the systemd of two boxes would share one root."""
    groups = []
    for hierarchy in _hierarchies():
        for group in (hierarchy / _GROUP, hierarchy / _GROUP / box):
            group.mkdir(exist_ok=True)
            # A new cpuset is empty, and no process may enter an empty one.
            for name in ("cpuset.cpus", "cpuset.mems"):
                if (group / name).exists() and (hierarchy / name).exists():
                    (group / name).write_text((hierarchy / name).read_text())
        groups.append(hierarchy / _GROUP / box)
    return groups


def join(groups: list[Path]) -> None:
    """Move the calling process, and with it all that it will start, into the groups."""
    for group in groups:
        (group / "cgroup.procs").write_text(str(os.getpid()))


def is_populated(box: str) -> bool:
    """Whether any process of the box lives. Not the boxes' own pids: a killed nspawn leaves its box running."""
    try:
        return "populated 1" in (_unified() / _GROUP / box / "cgroup.events").read_text()
    except OSError:
        return False


def kill(box: str) -> None:
    """A power cut: every process at once. Returns when none is left."""
    if is_populated(box):
        (_unified() / _GROUP / box / "cgroup.kill").write_text("1")
        wait_empty(box)


def wait_empty(box: str, limit_s: float = _LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while is_populated(box):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes of {box} were still there after {limit_s:.0f} s")
        time.sleep(0.05)


def boxes() -> list[str]:
    """Boxes that have a group, from this run or an earlier one."""
    parent = _unified() / _GROUP
    return sorted(path.name for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []


def remove(box: str) -> None:
    """The empty group of a box that is off."""
    for hierarchy in _hierarchies():
        _remove_tree(hierarchy / _GROUP / box)


def remove_parent() -> None:
    for hierarchy in _hierarchies():
        _remove_tree(hierarchy / _GROUP)


def _remove_tree(group: Path) -> None:
    if not group.is_dir():
        return
    for folder in sorted(group.rglob("*"), key=lambda path: len(path.parts), reverse=True):
        if folder.is_dir():
            folder.rmdir()
    # The kernel may hold a group for a moment after its last process has ended.
    for _ in range(50):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.05)
    group.rmdir()


def _version_2_alone() -> bool:
    return (_ROOT / "cgroup.controllers").exists()


def _unified() -> Path:
    return _ROOT if _version_2_alone() else _ROOT / "unified"


def _hierarchies() -> Iterator[Path]:
    if _version_2_alone():
        yield _ROOT
        return
    # Also through links: `cpu` is one to `cpu,cpuacct` on some machines, and making a group twice does no harm.
    yield from (path for path in sorted(_ROOT.iterdir()) if (path / "cgroup.procs").exists())
