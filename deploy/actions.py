"""What an operator can do to boxes, by name; the command line and the fabfile are two ways to say it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from ddqueue import bootstrap, settings
from deploy.checking import check
from deploy.configuration import Shared
from deploy.connection import SshOptions, this_side
from deploy.control_side import control_side
from deploy.fleet import Run, Work, run_on_all, run_on_one
from deploy.narration import Say, Story
from deploy.operating import logs, restart, status
from deploy.removing import remove
from deploy.rollout import deploy, roll_back
from deploy.subject import Subject, Wishes
from deploy.target import Target, find_target
from deploy.wheel import Wheel, build_wheel, read_wheel


class Action(StrEnum):
    """What is to be done to every box."""

    DEPLOY = "deploy"
    CHECK = "check"
    ROLLBACK = "rollback"
    REMOVE = "remove"
    STATUS = "status"
    RESTART = "restart"


_LOOKS_ONLY = frozenset({Action.CHECK, Action.STATUS})


@dataclass(frozen=True)
class Reaching:
    """Which boxes, and how to log in; `user` and `port` count more than the inventory's addresses."""

    names: tuple[str, ...]
    ssh: SshOptions
    inventory: Path | None = None
    """None = the usual one."""
    user: str | None = None
    port: int | None = None


def operate(action: Action, reaching: Reaching, wishes: Wishes, say: Say, wheel: Path | None = None) -> list[Story]:
    """Do it on all boxes at once; returns each one's story. `wheel` None = build it from this checkout.

    Raises:
        UsageError: this side's settings, inventory, wheel or a name cannot be used; no box was reached.
        NotReachable: Postgres is not reached from here.
    """
    with contextlib.ExitStack() as stack:
        run = stack.enter_context(_run(reaching, wishes, _needs_queue(action, wishes)))
        targets = [_target(run, reaching, name) for name in dict.fromkeys(reaching.names)]
        work = _deploying(stack.enter_context(_wheel(wheel))) if action is Action.DEPLOY else _WORKS[action]
        return run_on_all(run, targets, work, say, changes=action not in _LOOKS_ONLY)


def print_logs(reaching: Reaching, wishes: Wishes, lines: int, follow: bool, write: Callable[[bytes], None]) -> None:
    """The ends of the services' logs, box by box.

    Raises:
        UsageError: nothing is deployed on one of them, or a name cannot be used.
        NotReachable: one of them.
    """
    with _run(reaching, wishes, needs_queue=False) as run:
        for name in dict.fromkeys(reaching.names):
            run_on_one(run, _target(run, reaching, name), partial(logs, lines=lines, follow=follow, write=write))


def _needs_queue(action: Action, wishes: Wishes) -> bool:
    return action is not Action.STATUS and not (action is Action.REMOVE and wishes.force)


@contextlib.contextmanager
def _run(reaching: Reaching, wishes: Wishes, needs_queue: bool) -> Iterator[Run]:
    path = settings.inventory_path(reaching.inventory)
    shared = Shared(
        database_url=settings.database_url(),
        redis_url=settings.redis_url(),
        inventory=path.read_bytes(),
        waits=settings.patience_variables(),
        flower_login=settings.flower_login,
    )
    with control_side(check=needs_queue) as control:
        yield Run(control, bootstrap.inventory(path), shared, reaching.ssh, wishes, this_side())


def _target(run: Run, reaching: Reaching, name: str) -> Target:
    return find_target(name, run.inventory, reaching.user, reaching.port)


@contextlib.contextmanager
def _wheel(explicit: Path | None) -> Iterator[Wheel]:
    if explicit is not None:
        yield read_wheel(explicit)
        return
    with tempfile.TemporaryDirectory(prefix="ddqueue-wheel-") as folder:
        yield build_wheel(Path(folder))


def _deploying(wheel: Wheel) -> Work:
    return lambda subject: deploy(subject, wheel)


def _checked(subject: Subject) -> str:
    check(subject, tell_all=True)
    return "fit"


_WORKS: dict[Action, Work] = {
    Action.CHECK: _checked,
    Action.ROLLBACK: roll_back,
    Action.REMOVE: remove,
    Action.STATUS: status,
    Action.RESTART: restart,
}
