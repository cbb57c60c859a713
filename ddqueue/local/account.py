"""The user that the servers run as: the caller, or `nobody` when the caller is root."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddqueue.errors import DdqueueError


@dataclass(frozen=True)
class Account:
    """An unprivileged user of this machine."""

    name: str
    uid: int
    gid: int

    def credentials(self) -> dict[str, Any]:
        """What `subprocess` needs to start a process as this user, without any group of the caller's."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def first_closed_folder(self, folder: Path) -> Path | None:
        """The outermost existing part of `folder` whose mode bits do not let this user through; None when all do."""
        for part in reversed((folder, *folder.parents)):
            if not part.exists():
                return None
            status = part.stat()
            if status.st_uid == self.uid:
                passable = status.st_mode & 0o100
            elif status.st_gid == self.gid:
                passable = status.st_mode & 0o010
            else:
                passable = status.st_mode & 0o001
            if not passable:
                return part
        return None


def server_account() -> Account | None:
    """`nobody` for root, because Postgres refuses to run as uid 0; None (the caller itself) for everybody else.

    Raises:
        DdqueueError: root on a machine that has no `nobody`.
    """
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        raise DdqueueError(
            "Postgres refuses to run as root and this machine has no user `nobody`; run ddqueue as an ordinary user"
        ) from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
