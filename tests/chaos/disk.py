"""A small file system under the servers' logs and the attempts' journals, to be filled."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_SIZE_MIB = 64
_FOLDERS = ("logs", "journal")
"""What of ddqueue's folder of state lies on it."""
_FILLER = "filler"


@dataclass(frozen=True)
class Disk:
    """`missing` says why there is none; then nothing can be filled."""

    folder: Path
    missing: str = ""

    @classmethod
    @contextmanager
    def under(cls, home: Path) -> Iterator[Disk]:
        """Mount it, where that is allowed, and take it away at the end."""
        folder = home / "disk"
        folder.mkdir()
        if os.geteuid() != 0:
            yield cls(folder, "mounting a small file system needs root")
            return
        mount = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE_MIB}m", "ddqueue-chaos", str(folder)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            yield cls(folder, f"no small file system can be mounted: {done.stderr.strip()}")
            return
        try:
            for name in _FOLDERS:
                (folder / name).mkdir()
                (home / name).symlink_to(folder / name)
            yield cls(folder)
        finally:
            # What was written is for whoever looks into a run that failed.
            shutil.copytree(folder, home / "disk.kept", ignore=shutil.ignore_patterns(_FILLER))
            # Lazily: a process that is still ending may have a log open.
            subprocess.run(["umount", "-l", str(folder)], check=False)

    def fill(self) -> int:
        """Leave not one free byte; returns how many MiB that took."""
        written = 0
        with self._filler.open("wb", buffering=0) as file:
            try:
                while True:
                    written += file.write(bytes(2**20))
            except OSError:
                return written // 2**20

    def empty(self) -> None:
        self._filler.unlink(missing_ok=True)

    def free_bytes(self) -> int:
        status = os.statvfs(self.folder)
        return status.f_bavail * status.f_frsize

    @property
    def _filler(self) -> Path:
        return self.folder / _FILLER
