"""The end of one server, by escalation: ask its parent, wait for the children, kill what is left, prove it gone."""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Callable

from ddqueue.engine.family import Family, described
from ddqueue.engine.limits import StartLimits
from ddqueue.engine.listeners import listeners, ports_of

log = logging.getLogger(__name__)

_POLL_S = 0.02


def end(process: subprocess.Popen[bytes], family: Family, port: int, limits: StartLimits, *, hears: bool = True) -> str:
    """End the server and return how that went, in words: `clean` when asking was enough.

    One that does not hear, because it is busy with its own death, is killed unasked.

    When it returns, no process of the family is left and nobody of it listens; or, past `limits.kill_s`, the words name
    what is still there. That is no exception, because the error that made the server end is worth more; whoever frees
    the host next meets the same processes and quarantines it.
    """
    met = family.members()
    ports = {port, *ports_of(met)}
    words = _ask_parent(process, limits) if hears else ["it was dying, and did not end"]

    if hears:
        _wait(lambda: not _left(family, met), limits.children_s)
    if left := _left(family, met):
        words.append(f"killed {described(left)}")
        deadline = time.monotonic() + limits.kill_s
        while (left := _left(family, met)) and time.monotonic() < deadline:
            family.kill()
            time.sleep(_POLL_S)
        if left:
            words.append(f"still there: {described(left)}")
    if not _wait(lambda: not listeners(ports), limits.children_s):
        words += [f"port {one.port} is held by {one}" for one in listeners(ports)]
    if words:
        log.warning("the server's end: %s", "; ".join(words))
    return "; ".join(words) or "clean"


def _ask_parent(process: subprocess.Popen[bytes], limits: StartLimits) -> list[str]:
    """SIGTERM to the parent alone: to the whole group it looks like a crash of the children."""
    if process.poll() is not None:
        return [f"it had ended by itself, exit code {process.returncode}"]
    process.terminate()
    if _wait(lambda: process.poll() is not None, limits.stop_s):
        return []
    return [f"SIGTERM was not enough in {limits.stop_s:g} s"]


def _left(family: Family, met: list[int]) -> list[int]:
    """Living members; those met before are reaped when they have ended."""
    members = family.members()
    met += [pid for pid in members if pid not in met]
    family.reap(met)
    return members


def _wait(condition: Callable[[], bool], limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
