"""Shared-memory segments that dead servers of ours left in /dev/shm, and nothing else that lies there.

A server that is killed cannot remove its segments, and they eat the room that the next one needs. A segment says
nowhere who made it, so one is removed only if all of this holds: it appeared while the host's lock was ours; it has a
name as SGLang and what it builds on give; it is our user's, a plain file; and no living process has it open or mapped.
Whatever leaves a doubt stays.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

DEV_SHM = Path("/dev/shm")

_NAMES = re.compile(
    r"sglang[_.-].+"  # SGLang's own, e.g. sglang_loads_*.shm
    r"|psm_[0-9a-f]{8}"  # Python's multiprocessing.shared_memory
    r"|torch_\d+_\d+_\d+"  # PyTorch's tensors shared by file
    r"|nccl-[A-Za-z0-9]{6}"  # NCCL's transport between ranks
)


class SharedMemory:
    """One attempt's view of the folder: what lay there before its server, and what that server left."""

    def __init__(self, folder: Path = DEV_SHM, record: Path | None = None) -> None:
        """`record` keeps the snapshot for a successor, in case this process dies before it has cleaned up."""
        self.folder = folder
        self._record = record
        self._before: dict[str, int] | None = None

    def snapshot(self) -> None:
        """Note what lies there now: none of it will be removed."""
        self._before = {name: status.st_ino for name, status in self._files()}
        if self._record is not None:
            self._record.parent.mkdir(parents=True, exist_ok=True)
            temporary = self._record.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(self._before))
            temporary.replace(self._record)

    def remove_left(self) -> list[str]:
        """Remove what the server that started after the snapshot has left, and forget the snapshot; the names removed.

        Only for the holder of the host's lock, once the server's processes have ended. Without a snapshot, this
        process's or a dead predecessor's, nothing is removed.
        """
        before = self._before if self._before is not None else self._recorded()
        removed = [] if before is None else self._remove_new(before)
        self._before = None
        if self._record is not None:
            self._record.unlink(missing_ok=True)
        return removed

    def _remove_new(self, before: dict[str, int]) -> list[str]:
        new = {
            name: status
            for name, status in self._files()
            if before.get(name) != status.st_ino and _NAMES.fullmatch(name) and status.st_uid == os.geteuid()
        }
        if not new:
            return []
        in_use, unreadable = _names_in_use(frozenset(new))
        removed = []
        for name, status in new.items():
            # A process whose files we may not see could hold only what it was allowed to open.
            if name in in_use or (unreadable and status.st_mode & 0o077):
                continue
            (self.folder / name).unlink(missing_ok=True)
            removed.append(name)
        return removed

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        with os.scandir(self.folder) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stat.S_ISREG(status.st_mode):
                    yield entry.name, status

    def _recorded(self) -> dict[str, int] | None:
        if self._record is None:
            return None
        try:
            before = json.loads(self._record.read_text())
        except (OSError, ValueError):
            return None
        return before if isinstance(before, dict) else None


def _names_in_use(names: frozenset[str]) -> tuple[set[str], bool]:
    """Those that a process has open or mapped, and whether there are processes that cannot be looked into.

    Compared by name, not by path: the folder may be mounted elsewhere for a process in a container.
    """
    in_use: set[str] = set()
    unreadable = False
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            in_use |= names & {os.path.basename(target) for target in _targets(pid)}
        except (FileNotFoundError, ProcessLookupError):
            continue  # It has just ended.
        except PermissionError:
            unreadable = True
    return in_use, unreadable


def _targets(pid: str) -> Iterator[str]:
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            yield os.readlink(f"/proc/{pid}/fd/{fd}")
        except FileNotFoundError:
            continue
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            yield line.rstrip("\n").partition("/")[2]
