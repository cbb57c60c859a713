"""The release of a deployment: made on the box, from the registry it knows or from wheels that are sent there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from deploy import release, wheelhouse
from deploy.errors import BoxRefused
from deploy.reading import Reading
from deploy.subject import Subject
from deploy.wheel import Wheel

_ONE_FILLS = threading.Lock()
"""Boxes share the folder on this side."""


def make_release(subject: Subject, wheel: Wheel, reading: Reading) -> None:
    """Nothing when it is there already. It touches nothing that runs.

    Raises:
        UsageError: the wheelhouse lacks something.
        BoxRefused: the box cannot make it.
        DdqueueError: the wheelhouse cannot be filled.
    """
    with subject.narrator.step("release") as step:
        if release.is_whole(subject.box, wheel.release):
            step.changed(False, f"{wheel.release} is there")
            return
        if release.current(subject.box) == wheel.release:
            raise BoxRefused(
                f"{wheel.release}, which is in use, is damaged: its interpreter does not start any more; take it away "
                f"and deploy it anew: ddqueue deploy {subject.target.name} --remove --keep-state"
            )
        folder = subject.wishes.wheelhouse
        if folder is not None:
            usable = _usable(folder, subject.wishes.fill, wheel.lock, reading, step.tell)
            wheelhouse.send(subject.box, usable, step.tell)
        step.tell(f"builds {wheel.release}")
        release.build(subject.box, wheel, reading.executable, offline=folder is not None)
        if not release.is_whole(subject.box, wheel.release):
            raise BoxRefused(f"{wheel.release} was built, and does not start on the box")
        step.changed(True, f"{wheel.release} built")


def prune(subject: Subject, wanted: str) -> None:
    """Remove the releases that neither runs nor can be gone back to."""
    with subject.narrator.step("old releases") as step:
        removed = release.prune(subject.box, {wanted, *subject.history.releases()})
        step.changed(removed > 0, f"{removed} removed" if removed else "none to remove")


def _usable(folder: Path, fill: bool, lock: str, reading: Reading, tell: Callable[[str], None]) -> dict[str, Path]:
    with _ONE_FILLS:
        if fill:
            folder.mkdir(parents=True, exist_ok=True)
        usable = wheelhouse.usable_wheels(folder, lock)
        lacking = wheelhouse.missing(lock, reading, usable)
        if lacking and fill:
            tell(f"downloads {len(lacking)} wheels into {folder}")
            wheelhouse.fill(folder, lacking, reading)
            usable = wheelhouse.usable_wheels(folder, lock)
            lacking = wheelhouse.missing(lock, reading, usable)
        wheelhouse.refuse_incomplete(folder, lacking, reading)
        return usable
