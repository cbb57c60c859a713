"""ssh into the boxes: one key pair for the run, and the boxes' host keys, known before the first connection."""

from __future__ import annotations

import shlex
from pathlib import Path

from .commands import output


class Keys:
    """Files in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self.private = folder / "id_ed25519"
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.touch()
        make_pair(self.private, "ddqueue boxes")

    @property
    def public(self) -> Path:
        return self.private.with_suffix(".pub")

    def know(self, address: str, host_key: Path) -> None:
        """Expect exactly this key (its public half) at the address."""
        kind, key = host_key.read_text().split()[:2]
        with self.known_hosts.open("a") as file:
            file.write(f"{address} {kind} {key}\n")

    def ssh(self, address: str, *argv: str, user: str = "root", limit_s: float = 60.0) -> str:
        """What the command wrote. Raises CommandFailed, also for another host key."""
        options = {
            "IdentityFile": self.private,
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": self.known_hosts,
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": 2,
            "LogLevel": "ERROR",
        }
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        # sshd hands the words to a shell as one line.
        return output("ssh", "-F", "none", *words, f"{user}@{address}", shlex.join(argv), limit_s=limit_s)


def make_pair(private: Path, comment: str) -> None:
    output("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", private)
