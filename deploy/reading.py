"""Asks a box what checks want to know, with one script that runs there."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.connection import BoxConnection
from deploy.errors import BoxRefused

_PROBE = Path(__file__).with_name("probe.py")
_LIMIT_S = 60.0
_OLDEST, _NEWEST = 11, 20
"""Minor versions of Python 3 to look for, beside `python3` itself."""


@dataclass(frozen=True)
class Question:
    """What to look for: folders for their room, files, programs, and places that must answer: (name, host, port)."""

    folders: tuple[str, ...]
    files: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    places: tuple[tuple[str, str, int], ...] = ()
    gpus: bool = False


@dataclass(frozen=True)
class Reading:
    """What the box said. `ahead_s`: its clock minus this one's, as far as the time of asking does not explain it."""

    python: tuple[int, int, int]
    executable: str
    venv: bool
    machine: str
    libc: tuple[str, str]
    systemd: bool
    free_mib: dict[str, int]
    missing_files: tuple[str, ...]
    missing_programs: tuple[str, ...]
    unreached: dict[str, str]
    gpus: dict[str, Any] | None
    ahead_s: float


def read_box(box: BoxConnection, question: Question, python: str | None) -> Reading:
    """Ask by the interpreter `python`; without one, the best that the box has.

    Raises:
        BoxRefused: there is no Python 3 at all.
        NotReachable: the connection broke.
    """
    interpreter = python or _find_python(box)
    began_s = time.time()
    text = box.run(
        'exec "$1" -I - "$2"',
        interpreter,
        json.dumps(vars(question)),
        what=f"{interpreter} cannot look at the box",
        stdin=_PROBE.read_bytes(),
        limit_s=_LIMIT_S,
    )
    ended_s = time.time()
    try:
        said = json.loads(text)
    except ValueError as error:
        raise BoxRefused(f"{interpreter} answered what cannot be read: {text[-300:]!r}") from error
    return reading_from(said, began_s, ended_s)


def reading_from(said: dict[str, Any], began_s: float, ended_s: float) -> Reading:
    """The box's answer, which was asked for and came at these times of this machine's clock."""
    major, minor, micro = said["python"]
    name, version = said["libc"]
    return Reading(
        python=(major, minor, micro),
        executable=said["executable"],
        venv=said["venv"],
        machine=said["machine"],
        libc=(name, version),
        systemd=said["systemd"],
        free_mib=said["free_mib"],
        missing_files=tuple(said["missing_files"]),
        missing_programs=tuple(said["missing_programs"]),
        unreached=said["unreached"],
        gpus=said["gpus"],
        # The script is asked for its time first, so that what it does afterwards does not count.
        ahead_s=_beyond(said["time_s"], began_s, ended_s),
    )


def _beyond(time_s: float, began_s: float, ended_s: float) -> float:
    """How far the time lies outside the interval in which it was read; 0 within it."""
    if time_s < began_s:
        return time_s - began_s
    return max(0.0, time_s - ended_s)


def _find_python(box: BoxConnection) -> str:
    """`python3` if it is new enough, else the newest beside it, else whatever there is: the check says what is
    wrong with it."""
    names = ("python3", *(f"python3.{minor}" for minor in range(_NEWEST, _OLDEST - 1, -1)))
    script = (
        'for p in "$@"; do "$p" -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null && '
        '{ command -v "$p"; exit 0; }; done; command -v python3'
    )
    done = box.ask(script, *names)
    if done.code != 0:
        raise BoxRefused("there is no Python 3 on the box; on Debian: apt-get install python3 python3-venv")
    return done.output.strip()
