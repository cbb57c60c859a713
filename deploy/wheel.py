"""The program as one wheel, which carries the lock file of what it needs."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from ddqueue.errors import DdqueueError, UsageError

LOCK_IN_WHEEL = "ddqueue-{version}.dist-info/extra_metadata/deploy.lock"
"""Put there by `pyproject.toml`, so that a wheel cannot be installed with another version's lock."""

_CHECKOUT = Path(__file__).resolve().parents[1]
_NAME = re.compile(r"ddqueue-(?P<version>[A-Za-z0-9.+!_]+)-py3-none-any\.whl")
_BUILD_LIMIT_S = 120.0
_HASH_LENGTH = 12


@dataclass(frozen=True)
class Wheel:
    """A built ddqueue. `lock` is the text of its lock file."""

    path: Path
    version: str
    sha256: str
    lock: str

    @property
    def release(self) -> str:
        """The name of the release that is made of it: the same content has the same name."""
        return f"{self.version}-{self.sha256[:_HASH_LENGTH]}"


def read_wheel(path: Path) -> Wheel:
    """Raises UsageError: it is no wheel of ddqueue that can be deployed."""
    name = _NAME.fullmatch(path.name)
    if name is None:
        raise UsageError(f"{path} is no wheel of ddqueue; make one in its checkout: hatchling build -t wheel")
    try:
        with zipfile.ZipFile(path) as archive:
            lock = archive.read(LOCK_IN_WHEEL.format(version=name["version"])).decode("utf-8")
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except (KeyError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} is no wheel that can be deployed: {error}") from error
    return Wheel(path, name["version"], sha256, lock)


def build_wheel(folder: Path, checkout: Path = _CHECKOUT) -> Wheel:
    """Build the checkout's wheel into `folder`; the same sources give the same bytes.

    Raises:
        UsageError: this ddqueue was installed from a wheel, so that there is no checkout.
        DdqueueError: the build failed.
    """
    if not (checkout / "pyproject.toml").is_file():
        raise UsageError("this ddqueue runs from no checkout, so there is nothing to build; name a wheel with --wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    try:
        done = subprocess.run(
            command, cwd=checkout, capture_output=True, text=True, timeout=_BUILD_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise DdqueueError(f"the wheel was not built within {_BUILD_LIMIT_S:.0f} s") from error
    if done.returncode != 0:
        raise DdqueueError(f"the wheel cannot be built: {(done.stderr or done.stdout).strip()[-2000:]}")
    (built,) = folder.glob("ddqueue-*.whl")
    return read_wheel(built)
