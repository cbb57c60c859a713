"""A folder of wheels for boxes that reach no registry: filled on this side, and sent where it is missing."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from ddqueue.errors import DdqueueError, UsageError
from deploy import layout
from deploy.connection import BoxConnection
from deploy.lockfile import Locked, markers_of, read_lock
from deploy.reading import Reading

_FILL_LIMIT_S = 1800.0
_SEND_LIMIT_S = 1800.0
_OLDEST_GLIBC_MINOR = 17


def usable_wheels(folder: Path, lock: str) -> dict[str, Path]:
    """The folder's files that the lock allows, by their SHA-256; whatever else lies there is left alone.

    Raises:
        UsageError: there is no such folder.
    """
    if not folder.is_dir():
        raise UsageError(f"--wheelhouse {folder}: there is no such folder; --fill makes it")
    allowed = {digest for locked in read_lock(lock) for digest in locked.hashes}
    found = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in sorted(folder.glob("*.whl"))}
    return {digest: path for digest, path in found.items() if digest in allowed}


def missing(lock: str, reading: Reading, usable: dict[str, Path]) -> list[Locked]:
    """What the box's interpreter needs of the lock and the folder has not."""
    markers = markers_of(reading.python, reading.machine)
    return [locked for locked in read_lock(lock) if locked.is_for(markers) and locked.hashes.isdisjoint(usable)]


def fill(folder: Path, wanted: list[Locked], reading: Reading) -> None:
    """Download wheels for the box's interpreter from the registry that pip is set up for on this side.

    Markers are decided here, since pip would decide them by the interpreter it runs on.

    Raises:
        DdqueueError: pip failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for locked in wanted:
        bare = f"{locked.requirement.name}{locked.requirement.specifier}"
        lines.append(" ".join([bare, *(f"--hash=sha256:{digest}" for digest in sorted(locked.hashes))]))
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        options = ["--only-binary=:all:", *_platform(reading), "--dest", str(folder), "--requirement", file.name]
        try:
            done = subprocess.run(
                [*command, *options], capture_output=True, text=True, timeout=_FILL_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise DdqueueError(f"the wheels were not there within {_FILL_LIMIT_S:.0f} s") from error
    if done.returncode != 0:
        raise DdqueueError(f"--fill: pip cannot get the wheels: {(done.stderr or done.stdout).strip()[-2000:]}")


def refuse_incomplete(folder: Path, lacking: list[Locked], reading: Reading) -> None:
    """Raises UsageError when anything is lacking."""
    if lacking:
        names = ", ".join(f"{locked.requirement.name}{locked.requirement.specifier}" for locked in lacking)
        version = ".".join(str(part) for part in reading.python)
        raise UsageError(
            f"--wheelhouse {folder} lacks for Python {version} on {reading.machine}: {names}; "
            "--fill downloads it on this side"
        )


def send(box: BoxConnection, usable: dict[str, Path], tell: Callable[[str], None]) -> int:
    """Bring the files to the box that it has not; returns how many were sent. What is there is known by its content,
    not by its name."""
    there = _digests(box)
    absent = {digest: path for digest, path in usable.items() if digest not in there}
    if absent:
        size_mb = sum(path.stat().st_size for path in absent.values()) / 1e6
        tell(f"sends {len(absent)} wheels, {size_mb:.0f} MB")
    for digest, path in absent.items():
        # A file that arrived cut or changed gets no name that pip would take.
        script = (
            'set -e; mkdir -p "$1"; cat >"$1/$2.part"; '
            'echo "$3  $1/$2.part" | sha256sum --quiet --check -; mv "$1/$2.part" "$1/$2"'
        )
        words = (layout.WHEELS, path.name, digest)
        box.run(script, *words, what=f"{path.name} did not arrive", stdin=path, limit_s=_SEND_LIMIT_S)
    return len(absent)


def _digests(box: BoxConnection) -> set[str]:
    listing = box.run(
        f"cd {shlex.quote(layout.WHEELS)} 2>/dev/null || exit 0; find . -name '*.whl' -exec sha256sum {{}} +",
        what="the wheels that are there cannot be read",
    )
    return {line.split()[0] for line in listing.splitlines() if line.strip()}


def _platform(reading: Reading) -> list[str]:
    """Options that say for which interpreter and C library; a wheel for an older glibc runs on a newer one."""
    major, minor, _ = reading.python
    _, _, glibc_minor = reading.libc[1].partition(".")
    newest = int(glibc_minor) if glibc_minor.isdigit() else _OLDEST_GLIBC_MINOR
    tags = [f"manylinux_2_{number}_{reading.machine}" for number in range(newest, _OLDEST_GLIBC_MINOR - 1, -1)]
    tags += [f"manylinux2014_{reading.machine}", f"manylinux2010_{reading.machine}", f"manylinux1_{reading.machine}"]
    words = ["--implementation", "cp", "--python-version", f"{major}.{minor}"]
    return [*words, *(word for tag in tags for word in ("--platform", tag))]
