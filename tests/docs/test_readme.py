"""Every command in the README is typed as it stands there, in order, in one folder."""

from __future__ import annotations

import re
from pathlib import Path

from walking import ROOT, follow, lines_of


def test_the_readme_can_be_followed(environment: dict[str, str], tmp_path: Path) -> None:
    assert sum(line.command.startswith("ddqueue") for line in lines_of(ROOT / "README.md")) >= 15
    follow(ROOT / "README.md", environment, tmp_path)


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
