"""`ddqueue deploy` as an operator runs it from the control side, onto boxes that never heard of ddqueue."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddqueue.files.examples import example
from deploy.wheel import Wheel, build_wheel

from .fleet import WAITS, Fleet

_CHECKOUT = Path(__file__).resolve().parents[2]
_SOURCES = ("ddqueue", "deploy", "migrations", "requirements", "workers", "LICENSE", "README.md", "pyproject.toml")
_PATIENCE_S = 1500.0
"""A release is built on the box, which shares this machine's cores with everything else."""
_WHEELHOUSE_VARIABLE = "DDQUEUE_BOXES_WHEELHOUSE"

_ELSEWHERE = (
    "proc",
    "sys",
    "dev",
    "run",
    "tmp",
    "var/tmp",
    "var/log",
    "var/cache",
    "var/lib/systemd",
    "var/lib/private",
)
"""Folders of a box that live, or that the system itself writes while it runs."""


def wheelhouse() -> Path:
    """Wheels that runs of these tests share, beside the cached base system."""
    named = os.environ.get(_WHEELHOUSE_VARIABLE)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else cache / "ddqueue" / "wheelhouse"


def make_wheel(folder: Path, version: str, edit: Callable[[Path], None] = lambda _: None) -> Wheel:
    """This checkout as another version, whose sources `edit` has changed."""
    source, built = folder / f"source-{version}", folder / f"built-{version}"
    source.mkdir(parents=True)
    for name in _SOURCES:
        path = _CHECKOUT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, source / name)
    for file, line in (("pyproject.toml", "version = "), ("ddqueue/__init__.py", "__version__ = ")):
        text = (source / file).read_text()
        (source / file).write_text(text.replace(f'{line}"{_version()}"', f'{line}"{version}"'))
    edit(source)
    return build_wheel(built, source)


def break_worker(source: Path) -> None:
    """Let the worker end as soon as it has begun."""
    file = source / "workers" / "worker.py"
    line = '    name = f"gpu@{host}"\n'
    assert line in file.read_text()
    file.write_text(file.read_text().replace(line, f'{line}    raise SystemExit("broken on purpose")\n'))


def _version() -> str:
    from ddqueue import __version__

    return __version__


@dataclass(frozen=True)
class Told:
    """What the command printed at its end, and what it wrote on the way."""

    code: int
    document: dict[str, Any]
    steps: str

    def host(self, name: str) -> dict[str, Any]:
        (found,) = [host for host in self.document["hosts"] if host["name"] == name]
        return dict(found)

    def outcomes(self, name: str) -> dict[str, str]:
        """The host's steps."""
        return {step["name"]: step["outcome"] for step in self.host(name)["steps"]}


class Deployer:
    """The control side: the first box is reached as root, the second as a user who may sudo."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self._fleet = fleet
        self.inventory = folder / "inventory.yaml"
        self.inventory.write_text(self.inventory_text())

    def inventory_text(self, more: str = "") -> str:
        """`more` is said of the second box."""
        text = example("inventory-sim.yaml")
        for (name, box), user in zip(self._fleet.boxes.items(), ("root", "ops"), strict=True):
            (line,) = [line for line in text.splitlines() if line.strip().startswith(f"{name}:")]
            address = f", address: {user}@{box.address}{more if user == 'ops' else ''}}}"
            text = text.replace(line, line.removesuffix("}") + address)
        return text

    def start(
        self, *arguments: str, known_hosts: Path | None = None, variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """`ddqueue deploy ARGUMENTS... --json`, which goes on while the test does something else."""
        keys = self._fleet.keys
        options = ["--identity", str(keys.private), "--known-hosts", str(known_hosts or keys.known_hosts), "--json"]
        return subprocess.Popen(
            [sys.executable, "-m", "ddqueue", "deploy", "--inventory", str(self.inventory), *options, *arguments],
            env=self._fleet.control.environment | WAITS | dict(variables or {}),
            cwd=self._fleet.control.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str], code: int = 0) -> Told:
        """What it said; fails unless it ends with `code`."""
        try:
            out, steps = process.communicate(timeout=_PATIENCE_S)
        finally:
            process.kill()
        assert process.returncode == code, f"{process.returncode}\n{out}\n{steps}"
        return Told(process.returncode, json.loads(out), steps)

    def run(
        self,
        *arguments: str,
        code: int = 0,
        known_hosts: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Told:
        """`variables` are of this side's environment."""
        return self.finish(self.start(*arguments, known_hosts=known_hosts, variables=variables), code)

    def logs(self, *arguments: str) -> str:
        process = self.start(*arguments, "--logs")
        out, problem = process.communicate(timeout=_PATIENCE_S)
        assert process.returncode == 0, problem
        return out

    def deploy(self, wheel: Wheel, *arguments: str, code: int = 0, variables: Mapping[str, str] | None = None) -> Told:
        """Without any registry on the boxes' side; the wheelhouse fills itself on this one."""
        offline = ["--wheelhouse", str(wheelhouse()), "--fill"]
        return self.run("--wheel", str(wheel.path), *offline, *arguments, code=code, variables=variables)


def files_of(root: Path) -> set[str]:
    """Every path of a box that stays what it is unless somebody changes it."""
    left_out = {str(root / folder) for folder in _ELSEWHERE}
    found = set()
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if f"{folder}/{name}" not in left_out and name != "__pycache__"]
        found.update(os.path.relpath(f"{folder}/{name}", root) for name in (*names, *files))
    return found
