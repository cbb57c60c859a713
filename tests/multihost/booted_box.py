"""A box that boots: its own systemd, sshd, host key, users and network, on this machine's kernel and clock."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from . import cgroups, network
from .box import Service
from .commands import CommandFailed, output
from .keys import Keys, make_pair

_READY_LIMIT_S = 90.0
_OPERATOR = "ops"
"""A user who may sudo, beside root."""

# systemd-nspawn mounts version 1's controllers read-only, and MemoryMax= and TasksMax= would then do nothing.
_INIT = """#!/bin/sh
for controller in memory pids cpu cpuacct blkio; do
    [ ! -d /sys/fs/cgroup/$controller ] || mount -o remount,bind,rw,nosuid,nodev,noexec /sys/fs/cgroup/$controller
done
exec /lib/systemd/systemd
"""

_UNIT = """[Unit]
Description={name}
After=network.target
StartLimitIntervalSec=0

[Service]
ExecStart={command}
EnvironmentFile=/etc/{name}.env
Restart=always
RestartSec=1
KillMode=control-group
TimeoutStopSec=60

[Install]
WantedBy=multi-user.target
"""


class BootedBox:
    """Implements Box."""

    kind = "booted: systemd and sshd of its own"
    home = "/var/lib/ddqueue"
    start_options: tuple[str, ...] = ("--kill-signal=SIGRTMIN+3",)
    """Of systemd-nspawn, for the program that the box begins with."""

    def __init__(self, name: str, address: str, folder: Path, base: Path, keys: Keys, shared: Sequence[Path]) -> None:
        """`base` is the unpacked base system; the box sees the folders in `shared`, under their own paths, to read."""
        self.name = name
        self.address = address
        self._folder = folder
        self._keys = keys
        self._shared = shared
        self._supply: subprocess.Popen[bytes] | None = None
        self._root = folder / "root"
        for part in ("upper", "work", "root"):
            (folder / part).mkdir(parents=True)
        layers = f"lowerdir={base},upperdir={folder / 'upper'},workdir={folder / 'work'}"
        output("mount", "-t", "overlay", "overlay", "-o", layers, self._root)
        self._personalise()

    def boot(self) -> None:
        command = [
            *("systemd-nspawn", "--quiet", f"--directory={self._root}", f"--machine={self.name}", "--register=no"),
            *("--keep-unit", *self.start_options, f"--network-bridge={network.BRIDGE}"),
            *("--link-journal=no", "--resolv-conf=off", *(f"--bind-ro={path}" for path in self._shared)),
            "/sbin/box-init",
        ]
        with (self._folder / "console.log").open("ab") as console:
            self._supply = subprocess.Popen(
                [sys.executable, "-m", "multihost.boot", self.name, *command],
                cwd=Path(__file__).parent.parent,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        self._wait_ready()

    def first_program(self) -> str:
        """A script."""
        return _INIT

    def power_cut(self) -> None:
        cgroups.kill(self.name)
        self._off()

    def shut_down(self) -> None:
        if self._supply is not None:
            self._supply.terminate()
        cgroups.wait_empty(self.name)
        self._off()

    def is_on(self) -> bool:
        return cgroups.is_populated(self.name)

    def run(self, *argv: str, limit_s: float = 60.0) -> str:
        return self._keys.ssh(self.address, *argv, limit_s=limit_s)

    def outside(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def enable(self, service: Service) -> None:
        secrets = self.outside(f"/etc/{service.name}.env")
        secrets.touch(0o600)
        secrets.write_text("".join(f'{name}="{value}"\n' for name, value in service.environment.items()))
        unit = self.outside(f"/etc/systemd/system/{service.name}.service")
        unit.write_text(_UNIT.format(name=service.name, command=" ".join(service.argv)))
        self.run("systemctl", "daemon-reload")
        self.run("systemctl", "--quiet", "enable", "--now", service.name)

    def log(self, service: str) -> str:
        """Read from outside, so that it can be read while the box is cut off."""
        journal = self.outside("/var/log/journal")
        return output("journalctl", f"--directory={journal}", "--quiet", "--output=cat", f"--unit={service}")

    def remove(self) -> None:
        self.power_cut()
        if self._root.is_mount():
            output("umount", self._root)
        shutil.rmtree(self._folder)

    def _off(self) -> None:
        if self._supply is not None:
            self._supply.wait()
            self._supply = None
        cgroups.remove(self.name)
        network.unplug(self.name)

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + _READY_LIMIT_S
        while True:
            try:
                self.run("true", limit_s=5)
                return
            except CommandFailed as failed:
                ended = self._supply is None or self._supply.poll() is not None
                if ended or time.monotonic() > deadline:
                    console = (self._folder / "console.log").read_text(errors="replace")[-3000:]
                    raise CommandFailed(f"{self.name} did not boot: {failed}\n{console}") from failed
                time.sleep(0.2)

    def _personalise(self) -> None:
        """What makes it this box and not another: names, keys, address, users."""
        self._write("/etc/hostname", f"{self.name}\n")
        self._write("/etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {self.name}\n{network.CONTROL_ADDRESS} control\n")
        self._write("/etc/machine-id", Path("/proc/sys/kernel/random/uuid").read_text().replace("-", ""))
        self.outside("/var/lib/dbus/machine-id").unlink(missing_ok=True)
        self._write(
            "/etc/systemd/network/10-host0.network",
            f"[Match]\nName=host0\n[Network]\nAddress={self.address}/{network.PREFIX_BITS}\n"
            f"Gateway={network.CONTROL_ADDRESS}\nLinkLocalAddressing=no\n",
        )
        self._write("/sbin/box-init", self.first_program(), 0o755)
        # Kept on disk, so that a power cut does not take the story along.
        self.outside("/var/log/journal").mkdir(exist_ok=True)
        for old in self.outside("/etc/ssh").glob("ssh_host_*"):
            old.unlink()
        host_key = self.outside("/etc/ssh/ssh_host_ed25519_key")
        make_pair(host_key, self.name)
        self._keys.know(self.address, host_key.with_suffix(".pub"))
        self._inside("useradd", "--create-home", "--shell", "/bin/bash", _OPERATOR)
        self._write(f"/etc/sudoers.d/{_OPERATOR}", f"{_OPERATOR} ALL=(ALL) NOPASSWD: ALL\n", 0o440)
        for user, home in (("root", "/root"), (_OPERATOR, f"/home/{_OPERATOR}")):
            self.outside(f"{home}/.ssh").mkdir(mode=0o700, exist_ok=True)
            self._write(f"{home}/.ssh/authorized_keys", self._keys.public.read_text(), 0o600)
            self._inside("chown", "--recursive", f"{user}:", f"{home}/.ssh")
        self._inside("systemctl", "--quiet", "enable", "systemd-networkd", "ssh")
        # It would hold the boot for two minutes when the box is cut off.
        self._inside("systemctl", "--quiet", "mask", "systemd-networkd-wait-online")

    def _inside(self, *argv: str) -> None:
        output("chroot", self._root, *argv)

    def _write(self, path: str, text: str, mode: int = 0o644) -> None:
        file = self.outside(path)
        file.write_text(text)
        os.chmod(file, mode)
