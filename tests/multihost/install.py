"""Puts ddqueue on a box. This is the one place that knows how: a deployment over ssh would replace it.

Boxes share one copy of the checkout, made when the run begins, so that what is edited meanwhile changes nothing; and
the interpreter that runs the tests, with its packages.
"""

from __future__ import annotations

import compileall
import os
import shutil
import sys
from pathlib import Path

from .box import Box, Service
from .commands import CommandFailed

_CHECKOUT = Path(__file__).resolve().parents[2]
_PACKAGES = ("ddqueue", "workers", "migrations", "deploy")
_OF_THE_SYSTEM = Path("/usr")
_PYTHON = os.path.abspath(sys.executable)
"""Not resolved further: a link inside a virtual environment is what makes it one."""


class Release:
    """One copy of the program."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for package in _PACKAGES:
            shutil.copytree(_CHECKOUT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        # Boxes cannot write here, and would compile everything at every start of a process.
        compileall.compile_dir(folder, quiet=1)

    @property
    def shared_folders(self) -> list[Path]:
        """What a booted box must see, to read, before `install`."""
        interpreter = Path(sys.base_prefix)
        # The distribution's own interpreter is one that the box has too, if it is of the same version.
        return [self.folder, Path(sys.prefix), *([] if interpreter == _OF_THE_SYSTEM else [interpreter])]

    def install(self, box: Box, service: str, *arguments: str, settings: dict[str, str], inventory: str) -> None:
        """`ddqueue ARGUMENTS...` as a service of the box, which starts now and whenever the box boots.

        `settings` are environment variables, secrets among them. Raises CommandFailed when the box cannot run it.
        """
        environment = {
            "PYTHONPATH": str(self.folder),
            "PYTHONUNBUFFERED": "1",
            "DDQUEUE_HOME": box.home,
            # Logs of all boxes are read side by side.
            "TZ": "UTC",
            **settings,
        }
        box.outside(box.home).mkdir(parents=True, exist_ok=True)
        (box.outside(box.home) / "inventory.yaml").write_text(inventory)
        try:
            box.run("env", f"PYTHONPATH={self.folder}", _PYTHON, "-m", "ddqueue", "--version")
        except CommandFailed as failed:
            raise CommandFailed(f"{box.name} cannot run this machine's {_PYTHON}: {failed}") from failed
        box.enable(Service(service, [_PYTHON, "-m", "ddqueue", *arguments], environment))
