"""What a program in the sandbox sees of the file system: this interpreter, its standard library, and what they load."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_SYSTEM_LIBRARIES = ("/lib", "/lib32", "/lib64", "/libx32", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32")
_SMALL_THINGS = ("/etc/ld.so.cache", "/usr/share/zoneinfo")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_INSTALLED = ("python*/site-packages", "python*/dist-packages")
_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class View:
    """Places of the host, all absolute and without symbolic links, shown read-only at the same place.

    `links` are (place, target). `covered` folders lie in shown ones and look empty: installed packages, since hidden
    tests may be among them. `interpreter` is the program to start.
    """

    interpreter: str
    shown: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    covered: tuple[str, ...]
    devices: tuple[str, ...]


def view_of_this_python() -> View:
    """The view for the interpreter that runs this, also from a virtual environment or a closed home folder."""
    # The environment's own python needs pyvenv.cfg and site-packages; the one behind it needs neither.
    interpreter = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()
    folders = [Path(name) for name in _SYSTEM_LIBRARIES if os.path.isdir(name) and not os.path.islink(name)]
    folders += [Path(prefix, "lib").resolve() for prefix in (sys.base_prefix, sys.base_exec_prefix)]
    folders += [Path(os.__file__).resolve().parent]
    folders = _outermost(folders)
    files = [Path(name).resolve() for name in _SMALL_THINGS if os.path.exists(name)]
    return View(
        interpreter=str(interpreter),
        shown=tuple(str(place) for place in _outermost([*folders, *files, interpreter])),
        links=tuple((name, os.readlink(name)) for name in _SYSTEM_LIBRARIES if os.path.islink(name)),
        covered=tuple(str(place) for place in _outermost(_installed_in(folders))),
        devices=tuple(name for name in _DEVICES if os.path.exists(name)),
    )


def _installed_in(folders: list[Path]) -> list[Path]:
    found = [place for folder in folders for pattern in _INSTALLED for place in folder.glob(pattern)]
    # The standard library's own folder may be the one shown.
    found += [folder / name for folder in folders for name in ("site-packages", "dist-packages")]
    found += [_PACKAGE] if any(_PACKAGE.is_relative_to(folder) for folder in folders) else []
    return [place for place in found if place.is_dir() and not place.is_symlink()]


def _outermost(places: Iterable[Path]) -> list[Path]:
    """`places` without those that lie in another, and each once."""
    kept: list[Path] = []
    for place in sorted(set(places)):
        if place.exists() and not any(place.is_relative_to(other) for other in kept):
            kept.append(place)
    return kept
