"""Host keys are checked, always: a box with another key than the known one is not spoken to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import paramiko
from fabric import Connection

from ddqueue.errors import UsageError

_SYSTEM = Path("/etc/ssh/ssh_known_hosts")


def known_hosts_files(connection: Connection, explicit: Path | None) -> list[Path]:
    """Where known keys lie: `explicit` alone, else what ~/.ssh/config names, else ssh's own places."""
    if explicit is not None:
        return [explicit]
    named = str(connection.ssh_config.get("userknownhostsfile", "~/.ssh/known_hosts"))
    return [*(Path(word).expanduser() for word in named.split()), _SYSTEM]


def check_host_keys(connection: Connection, explicit: Path | None) -> list[Path]:
    """Make the connection, and every hop before it, refuse an unknown key; returns the files that were read.

    Fabric by itself accepts any key it has not seen.

    Raises:
        UsageError: `explicit` cannot be read.
    """
    files = known_hosts_files(connection, explicit)
    for file in files:
        try:
            connection.client.load_system_host_keys(str(file))
        except OSError as error:
            if explicit is not None:
                raise UsageError(f"--known-hosts {file}: {error.strerror}") from error
    connection.client.set_missing_host_key_policy(paramiko.RejectPolicy())
    if isinstance(connection.gateway, Connection):
        check_host_keys(connection.gateway, explicit)
    return files


def unknown_key(connection: Connection, files: Sequence[Path]) -> UsageError:
    """What to say of a box whose key nobody has seen."""
    return UsageError(
        f"the host key of {_place(connection)} is not known in {_listed(files)}; log in once and compare what it shows "
        f"with the box's own: {_login(connection)} (or add the key, if you trust the network: {_scan(connection)} "
        f">> {files[0]})"
    )


def changed_key(connection: Connection, files: Sequence[Path], error: paramiko.BadHostKeyException) -> UsageError:
    """What to say of a box that shows another key than the known one."""
    shown = error.key.fingerprint
    return UsageError(
        f"{_place(connection)} shows another host key ({shown}) than {_listed(files)} has for it: somebody else "
        f"answers there, or the box was installed anew. If it was, remove the old key and log in once: "
        f"ssh-keygen -R '{_as_known(connection)}' -f {files[0]}; {_login(connection)}"
    )


def _place(connection: Connection) -> str:
    return f"{connection.host}:{connection.port}"


def _as_known(connection: Connection) -> str:
    return connection.host if connection.port == 22 else f"[{connection.host}]:{connection.port}"


def _login(connection: Connection) -> str:
    return f"ssh -p {connection.port} {connection.user}@{connection.host}"


def _scan(connection: Connection) -> str:
    return f"ssh-keyscan -p {connection.port} {connection.host}"


def _listed(files: Sequence[Path]) -> str:
    return " or ".join(str(file) for file in files)
