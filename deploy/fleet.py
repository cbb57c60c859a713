"""Several boxes at once: what fails on one stops none of the others."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ddqueue.domain.inventory import Inventory
from ddqueue.errors import DdqueueError
from deploy.configuration import Shared
from deploy.connection import BoxConnection, SshOptions
from deploy.control_side import ControlSide
from deploy.history import History
from deploy.keeper import Keeper
from deploy.locking import deploying
from deploy.narration import Narrator, Outcome, Say, Story
from deploy.subject import Subject, Wishes
from deploy.supervised import Supervised
from deploy.systemd import Systemd
from deploy.target import Target

Work = Callable[[Subject], str]
"""One box's work; returns how the box stands. Raises DdqueueError when it failed."""


@dataclass(frozen=True)
class Run:
    """What all boxes of one call of the command have in common."""

    control: ControlSide
    inventory: Inventory
    shared: Shared
    ssh: SshOptions
    wishes: Wishes
    by: str


def run_on_all(run: Run, targets: Sequence[Target], work: Work, say: Say, changes: bool = True) -> list[Story]:
    """Each box's story, in the order of the targets. `changes` False: the work only looks, and needs no lock.

    The threads die with the process: then each box keeps what was done, and a host that was held works again by itself.
    """
    narrators = [Narrator(target.name, say) for target in targets]

    def work_on(target: Target, narrator: Narrator) -> None:
        began_s = time.monotonic()
        try:
            narrator.story.result = _work_on(run, target, narrator, work, changes)
        except DdqueueError as error:
            narrator.story.problem = str(error)
        except Exception:  # a fault of ours: it must not look as if nothing had been done there
            narrator.story.problem = traceback.format_exc()
        narrator.story.took_s = time.monotonic() - began_s

    threads = [
        threading.Thread(target=work_on, args=pair, name=pair[0].name, daemon=True)
        for pair in zip(targets, narrators, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [narrator.story for narrator in narrators]


def keeper_of(box: BoxConnection, flower_address: str) -> Keeper:
    """systemd where it runs the box, else supervisord."""
    if box.ask("test -d /run/systemd/system").code == 0:
        return Systemd(box, flower_address)
    return Supervised(box, flower_address)


def run_on_one(run: Run, target: Target, work: Work) -> None:
    """Work that only looks, and tells no story. Raises DdqueueError."""
    _work_on(run, target, Narrator(target.name, lambda *_: None), work, changes=False)


def _work_on(run: Run, target: Target, narrator: Narrator, work: Work, changes: bool) -> str:
    box = BoxConnection(target, run.ssh)
    try:
        with narrator.step("connect") as step:
            box.open()
            narrator.story.place = box.place
            step.ended(Outcome.PASSED, box.place)
        subject = Subject(
            target=target,
            box=box,
            keeper=keeper_of(box, run.wishes.flower_address),
            history=History(box),
            control=run.control,
            inventory=run.inventory,
            shared=run.shared,
            wishes=run.wishes,
            narrator=narrator,
            by=run.by,
        )
        if not changes:
            return work(subject)
        with deploying(box, run.by):
            return work(subject)
    finally:
        box.close()
