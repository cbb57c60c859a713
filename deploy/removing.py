"""Takes ddqueue off a box: what it deployed, and, unless that is to stay, what its services kept."""

from __future__ import annotations

import contextlib

from deploy import layout
from deploy.connection import BoxConnection
from deploy.errors import BoxRefused
from deploy.installation import Installation
from deploy.rollout import host_without_work
from deploy.services import Service
from deploy.subject import Subject

_REMOVE_LIMIT_S = 300.0
_SHOWN = 5


def remove(subject: Subject) -> str:
    """Returns how the box stands.

    Raises:
        BoxRefused: its state holds what is nowhere else; the services are stopped by then, and nothing is removed.
    """
    newest = subject.history.newest()
    # By force it can be done when there is no queue any more, either.
    with contextlib.nullcontext() if subject.wishes.force else host_without_work(subject, "removes ddqueue"):
        with subject.narrator.step("stop") as step:
            if newest is None:
                step.changed(False, "nothing is deployed")
            else:
                subject.keeper.stop(newest)
                step.changed(True, ", ".join(service.unit for service in newest.services))
        if newest is not None and not subject.wishes.keep_state:
            with subject.narrator.step("state") as step:
                _refuse_to_lose(subject, newest)
                removed = _remove(subject.box, _state_of(newest))
                _remove_empty_folders(subject.box)
                step.changed(bool(removed), f"{len(removed)} removed" if removed else "there is none")
        with subject.narrator.step("files") as step:
            files = [] if newest is None else [file.path for file in newest.files]
            removed = _remove(subject.box, [*files, layout.CONFIGURATION, layout.ROOT])
            step.changed(bool(removed), f"{len(removed)} removed" if removed else "there are none")
        if newest is not None:
            subject.keeper.forget(newest)
    subject.box.run('rm -f -- "$1"', layout.LOCK, what="the lock cannot be removed")
    return f"removed, but for {layout.STATE}" if subject.wishes.keep_state else "nothing of ddqueue is left"


def _precious(host: str) -> list[str]:
    """Undelivered measurements, and the record that production waits for its box."""
    return [f"{layout.STATE}/journal/{host}", f"{layout.STATE}/borrowed/{host}.json"]


def _state_of(newest: Installation) -> list[str]:
    """What its services keep. Never the whole folder: an embedded Postgres, or a demo, may live in the same."""
    found = []
    if (host := newest.host) is not None:
        folders = [f"{layout.STATE}/{folder}/{host}" for folder in ("logs", "caches", "sim")]
        files = [f"{layout.STATE}/{file}" for file in (f"locks/{host}.lock", f"locks/{host}.shm.json")]
        found += [*_precious(host), *folders, *files, f"{layout.STATE}/doctor/{host}.json"]
    if Service.FLOWER in newest.services:
        # systemd keeps the folder of a service's own account in private/, and a link to it where it is looked for.
        found += [f"{layout.STATE}-{Service.FLOWER}", f"/var/lib/private/ddqueue-{Service.FLOWER}"]
    return found


def _refuse_to_lose(subject: Subject, newest: Installation) -> None:
    if newest.host is None or subject.wishes.force:
        return
    script = 'find "$@" -type f 2>/dev/null; :'
    found = subject.box.run(script, *_precious(newest.host), what="the state cannot be looked at").split()
    if found:
        shown = ", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
        raise BoxRefused(
            f"these hold what is nowhere else, measurements or the record of a borrowed box: {shown}; start the worker "
            "again and let it deliver them (--restart), keep them (--keep-state), or lose them (--force)"
        )


def _remove(box: BoxConnection, paths: list[str]) -> list[str]:
    """Remove what is there of these; returns it."""
    script = 'for p in "$@"; do if [ -e "$p" ] || [ -L "$p" ]; then rm -rf -- "$p" && echo "$p"; fi; done'
    return box.run(script, *paths, what="it cannot be removed", limit_s=_REMOVE_LIMIT_S).split()


def _remove_empty_folders(box: BoxConnection) -> None:
    script = 'find "$1" -mindepth 1 -maxdepth 1 -type d -empty -delete; rmdir "$1"; :'
    box.ask(script, layout.STATE)
