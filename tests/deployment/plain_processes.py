"""The services of docker-compose.yml as plain processes: their own words and environment, on this machine's ports and
folders instead of a container's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ddqueue.local.binaries import Binaries

PATIENCE_S = 240.0
"""How long a test waits before it calls something stuck; no assertion depends on how long anything takes."""


class PlainProcesses:
    """`places` are texts of the file and what stands for them here, e.g. `postgres:5432`; the longest come first."""

    def __init__(self, services: Mapping[str, Any], places: Mapping[str, str], folder: Path, programs: Path) -> None:
        self._services = services
        self._places = dict(sorted(places.items(), key=lambda place: -len(place[0])))
        self._folder = folder
        self._programs = programs
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def here(self, text: str) -> str:
        for there, here in self._places.items():
            text = text.replace(there, here)
        return text

    def words(self, name: str) -> list[str]:
        """The container's whole command: the file's entrypoint, or the image's, and its command."""
        service = self._services[name]
        return [self.here(word) for word in [*service.get("entrypoint", ["ddqueue"]), *service["command"]]]

    def environment(self, name: str) -> dict[str, str]:
        """What the container would have, and nothing of the test's own."""
        home = self._folder / name
        home.mkdir(exist_ok=True)
        given = {key: self.here(str(value)) for key, value in self._services[name].get("environment", {}).items()}
        path = f"{self._programs}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {"PATH": path, "DDQUEUE_HOME": str(home), "PYTHONUNBUFFERED": "1", **given}

    def start(self, name: str, *more: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*self.words(name), *more],
                env=self.environment(name),
                cwd=self._folder / name,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._running[name] = process
        return process

    def run(self, name: str, words: list[str], stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        """`docker compose exec -T NAME WORDS`, and a health check, which is run the same way."""
        return subprocess.run(
            [self.here(word) for word in words],
            env=self.environment(name) | more,
            cwd=self._folder / name,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def health(self, name: str, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
        kind, *words = self._services[name]["healthcheck"]["test"]
        if kind == "CMD-SHELL":
            words = ["sh", "-c", *words]
        return self.run(name, [*words, *more], **environment)

    def wait_healthy(self, name: str, *more: str, **environment: str) -> None:
        self.wait(name, lambda: self.health(name, *more, **environment).returncode == 0)

    def wait(self, name: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert self._running[name].poll() is None, f"{name} has ended\n{self.log(name)}"
            assert time.monotonic() < deadline, f"{name} is stuck\n{self.log(name)}"
            time.sleep(0.3)

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()

    def stop(self, name: str) -> int:
        """As `docker stop` does, and its exit code."""
        process = self._running.pop(name)
        process.terminate()
        return process.wait(PATIENCE_S)

    def stop_all(self) -> None:
        for name in [*self._running]:
            if self._running[name].poll() is None:
                self.stop(name)


def link_programs(folder: Path, binaries: Binaries) -> None:
    """The programs that the images have, by their names there."""
    folder.mkdir(exist_ok=True)
    (folder / "valkey-server").symlink_to(binaries.valkey_server)
    (folder / "pg_isready").symlink_to(binaries.pg_dump.with_name("pg_isready"))
