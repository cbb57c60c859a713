"""Every command in the README is typed as it stands there, in order, in one folder."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOT_TESTED = "not tested"
IN_THE_BACKGROUND = "in the background"


@dataclass(frozen=True)
class Line:
    command: str
    comment: str


def lines_of(document: Path) -> list[Line]:
    """The commands of every `sh` block, each with its comment."""
    blocks = re.findall(r"^```sh\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)
    found = []
    for line in "".join(blocks).splitlines():
        command, _, comment = line.partition("#")
        if command.strip():
            found.append(Line(command.strip(), comment.strip()))
    return found


@pytest.fixture
def environment(open_folder: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A person's shell: `ddqueue` on the path, a home of its own, no server named."""
    values = {name: value for name, value in os.environ.items() if not name.startswith("DDQUEUE_")}
    values["DDQUEUE_HOME"] = str(open_folder / f"readme-{os.getpid()}")
    values["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{values['PATH']}"
    yield values
    subprocess.run(["ddqueue", "down"], env=values, cwd=tmp_path, check=True, capture_output=True)


def test_the_readme_can_be_followed(environment: dict[str, str], tmp_path: Path) -> None:
    lines = lines_of(ROOT / "README.md")
    assert sum(line.command.startswith("ddqueue") for line in lines) >= 15
    background: list[subprocess.Popen[bytes]] = []
    try:
        for line in lines:
            words = shlex.split(line.command)
            if line.comment.startswith(NOT_TESTED):
                assert ":" in line.comment, f"{line.command}: say why it is not tested"
            elif line.comment.startswith(IN_THE_BACKGROUND):
                background.append(subprocess.Popen(words, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL))
            else:
                done = subprocess.run(
                    words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
                )
                assert done.returncode == 0, f"{line.command}\n{done.stdout}{done.stderr}"
                assert all(process.poll() is None for process in background), f"{line.command}: a process ended"
    finally:
        for process in background:
            process.terminate()
        for process in background:
            process.wait(60)


def test_the_sweep_in_the_readme_is_one() -> None:
    from ddqueue.files.examples import example
    from ddqueue.files.inventory_file import inventory_from_text
    from ddqueue.files.sweep_file import sweep_from_text

    (text,) = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    sweep = sweep_from_text(text, "README.md", inventory_from_text(example("inventory.yaml"), "inventory.yaml"))
    assert [cell.label for cell in sweep.cells] == [
        "baseline",
        "b8 t4 w2048",
        "b12 t6 none mem-fraction-static=0.9",
    ]


def test_help_names_every_command_of_the_readme() -> None:
    from ddqueue.cli.main import cli

    known = set(cli.list_commands(None))  # type: ignore[arg-type, attr-defined]
    used = {line.command.split()[1] for line in lines_of(ROOT / "README.md") if line.command.startswith("ddqueue ")}
    assert used <= known
