"""A process that runs programs in sandboxes for the tests, as root or as an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
DRIVER = ROOT / "tests" / "sandbox_driver.py"
ORDINARY_UID = 64_321
"""An ordinary user's id where the tests run as root; it needs no account."""


class Driver:
    """A process that runs programs in sandboxes, as one user and with one kind of walls."""

    def __init__(self, uid: int, walls: str, prepare: Callable[[], None] | None = None) -> None:
        self.uid = uid
        self.scratch = Path(tempfile.mkdtemp(prefix="ddqueue-sandbox-test-"))
        self.scratch.chmod(0o777)
        as_user: dict[str, Any] = {"user": uid, "group": uid, "extra_groups": []} if uid != os.geteuid() else {}
        self.process = subprocess.Popen(
            [interpreter_for(uid), "-B", str(DRIVER), walls],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env={"PATH": os.environ["PATH"], "TMPDIR": str(self.scratch), "DDQUEUE_SECRET": "of the parent"},
            preexec_fn=prepare,
            **as_user,
        )

    def run(self, code: str, **limits: Any) -> dict[str, Any]:
        """The result as plain values, with `witnessed` (see the driver)."""
        self.ask(code, **limits)
        while "exit_code" not in (reply := self.read()):
            pass
        return reply

    def ask(self, code: str, **limits: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"code": code, "limits": limits}) + "\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the driver ended with status {self.process.wait()}"
        reply: dict[str, Any] = json.loads(line)
        return reply

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        shutil.rmtree(self.scratch)


def interpreter_for(uid: int) -> str:
    """This Python, or the system's, where `uid` may start it and read the driver; skips the test if there is none."""
    for candidate in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        check = f"import sys; assert sys.version_info >= (3, 11); open({str(DRIVER)!r})"
        as_user: dict[str, Any] = {"user": uid, "group": uid, "extra_groups": []} if uid != os.geteuid() else {}
        try:
            if subprocess.run([candidate, "-c", check], cwd="/", capture_output=True, **as_user).returncode == 0:
                return candidate
        except OSError:
            continue
    pytest.skip(f"no Python 3.11 here that user {uid} can start, or the checkout is closed to them")


def mounts_of(driver: Driver) -> list[str]:
    lines = Path(f"/proc/{driver.process.pid}/mountinfo").read_text().splitlines()
    return [line for line in lines if line.split()[4] == "/tmp"]


def children_of(parent: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split() if name.isdigit() else []
        except OSError:
            continue
        if fields and int(fields[1]) == parent:
            found.append(int(name))
    return found
