"""`ddqueue init [DIR]`: commented example files to start from."""

from __future__ import annotations

from pathlib import Path

import click

from ddqueue.errors import UsageError
from ddqueue.files.examples import example

FILES = {"inventory.yaml": "inventory.yaml", "sweeps/example.yaml": "example.yaml"}
"""Where each example goes, below DIR."""


@click.command()
@click.argument("directory", metavar="[DIR]", default=".", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace files that are already there.")
def init(directory: Path, force: bool) -> None:
    """Write a commented inventory and sweep into DIR (default: here)."""
    targets = {directory / target: example(name) for target, name in FILES.items()}
    there = [target for target in targets if target.exists()]
    if there and not force:
        names = ", ".join(str(target) for target in there)
        raise UsageError(f"already there: {names}; nothing was written (--force replaces)")
    for target, text in targets.items():
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{target} cannot be written: {error.strerror}; name another directory") from error
        click.echo(f"wrote {target}")
    inventory, sweep = targets
    click.echo(f"next: ddqueue plan {sweep} --inventory {inventory}")
