"""A box without booting: network, process, mount and host name namespaces of its own, on this machine's files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from ddqueue.processes import die_with_parent

from . import network
from .box import Service
from .commands import output

_LIMIT_S = 30.0
_INTERFACE = "host0"


class NamespaceBox:
    """Implements Box."""

    kind = "network namespace: no systemd, no sshd, no file system of its own"

    def __init__(self, name: str, address: str, folder: Path) -> None:
        self.name = name
        self.address = address
        self._folder = folder
        self.home = str(folder / "home")
        (folder / "home").mkdir(parents=True)
        self._services: list[Service] = []
        self._holder: subprocess.Popen[bytes] | None = None
        self._init_pid = 0

    def boot(self) -> None:
        namespaces = ("--net", "--pid", "--mount", "--uts", "--ipc", "--mount-proc", "--fork", "--kill-child")
        with (self._folder / "console.log").open("ab") as console:
            self._holder = subprocess.Popen(
                ["unshare", *namespaces, sys.executable, "-m", "multihost.namespace_init"],
                cwd=Path(__file__).parent.parent,
                stdin=subprocess.PIPE,
                stdout=console,
                stderr=console,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self._init_pid = _only_child(self._holder.pid)
        self._plug_in()
        for service in self._services:
            self._tell(service)

    def power_cut(self) -> None:
        if self._init_pid:
            os.kill(self._init_pid, signal.SIGKILL)
        self._off()

    def shut_down(self) -> None:
        if self._holder is not None and self._holder.stdin is not None:
            self._holder.stdin.close()
        self._off()

    def is_on(self) -> bool:
        return self._holder is not None and self._holder.poll() is None

    def run(self, *argv: str, limit_s: float = 60.0) -> str:
        return output("nsenter", f"--target={self._init_pid}", "--all", "--", *argv, limit_s=limit_s)

    def outside(self, path: str) -> Path:
        return Path(path)

    def enable(self, service: Service) -> None:
        self._services.append(service)
        if self.is_on():
            self._tell(service)

    def log(self, service: str) -> str:
        path = self._log_path(service)
        return path.read_text(errors="replace") if path.exists() else ""

    def remove(self) -> None:
        self.power_cut()
        shutil.rmtree(self._folder)

    def _plug_in(self) -> None:
        port = network.port_of(self.name)
        output(
            *("ip", "link", "add", port, "type", "veth"),
            *("peer", "name", _INTERFACE, "netns", self._init_pid),
        )
        output("ip", "link", "set", port, "master", network.BRIDGE, "up")
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "address", "add", f"{self.address}/{network.PREFIX_BITS}", "dev", _INTERFACE)
        self.run("ip", "link", "set", _INTERFACE, "up")
        self.run("hostname", self.name)

    def _tell(self, service: Service) -> None:
        if self._holder is None or self._holder.stdin is None:
            raise RuntimeError(f"{self.name} is off")
        order = {
            "argv": list(service.argv),
            "environment": dict(service.environment),
            "log": str(self._log_path(service.name)),
        }
        self._holder.stdin.write(json.dumps(order).encode() + b"\n")
        self._holder.stdin.flush()

    def _log_path(self, service: str) -> Path:
        return self._folder / f"{service}.log"

    def _off(self) -> None:
        if self._holder is not None:
            self._holder.wait(_LIMIT_S)
            if self._holder.stdin is not None:
                self._holder.stdin.close()
        self._holder, self._init_pid = None, 0
        network.unplug(self.name)


def _only_child(pid: int) -> int:
    deadline = time.monotonic() + _LIMIT_S
    while not (words := Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        if time.monotonic() > deadline:
            raise TimeoutError("unshare started nothing")
        time.sleep(0.05)
    return int(words[0])
