"""Whether a deployment works: seen from the box, and from the other end of the queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from ddqueue.errors import DdqueueError
from ddqueue.storage.deploying import Seen
from deploy.connection import BoxConnection
from deploy.errors import Unhealthy
from deploy.installation import Installation
from deploy.keeper import Keeper, ServiceState
from deploy.release import folder_of
from deploy.services import Service

Found = TypeVar("Found")

STEADY_S = 6.0
"""So long every service must stay what it is."""
_COME_UP_S = 60.0
_POLL_S = 1.0
_EVIDENCE_LINES = 15


class OtherEnd(Protocol):
    """What the control side sees of the services."""

    def worker_seen(self, host: str) -> Seen:
        """What the host's worker has told the database of itself."""
        ...

    def dispatcher_seen(self, machine: str) -> Seen:
        """What the dispatcher on that machine has told it."""
        ...

    def answers(self, host: str) -> bool:
        """Whether the worker answers over the broker."""
        ...


def check_health(
    box: BoxConnection, keeper: Keeper, installation: Installation, other_end: OtherEnd, since: datetime | None
) -> str:
    """Returns what was seen, when all is well. `since`: the database's time before the start; None = not started anew.

    Raises:
        Unhealthy: with the end of the service's log.
    """
    try:
        states = _wait_steady(keeper, installation.services)
        for state in states:
            _check_release(box, state, installation.release)
        _check_other_end(box, installation, other_end, since)
    except Unhealthy as error:
        raise with_evidence(box, keeper, installation.services, error) from error
    said = [f"{state.service.unit} runs as pid {state.pid}" for state in states]
    return "; ".join([*said, *(["it answers over the broker"] if installation.host is not None else [])])


def with_evidence(box: BoxConnection, keeper: Keeper, services: Sequence[Service], error: DdqueueError) -> Unhealthy:
    """The error, with the ends of the services' logs."""
    parts = [str(error)]
    for service in services:
        done = box.ask(keeper.log_script(service, _EVIDENCE_LINES, follow=False))
        parts.append(f"  the end of the log of {service.unit}:")
        parts += [f"    {line}" for line in done.output.splitlines()[-_EVIDENCE_LINES:]]
    return Unhealthy("\n".join(parts))


def is_running(keeper: Keeper, services: Sequence[Service]) -> bool:
    """Whether every service runs now."""
    return all(state.active for state in keeper.states(services))


def _wait_steady(keeper: Keeper, services: Sequence[Service]) -> list[ServiceState]:
    """Once all have come up, none may end or start again for a while: a service that dies at once looks active, too."""
    states = _wait(lambda: _all_active(keeper, services), "did not come up", _COME_UP_S)
    before = [(state.pid, state.starts) for state in states]
    until = time.monotonic() + STEADY_S
    while time.monotonic() < until:
        time.sleep(_POLL_S)
        states = keeper.states(services)
        for state, (pid, starts) in zip(states, before, strict=True):
            if not state.active or (state.pid, state.starts) != (pid, starts):
                raise Unhealthy(f"{state.service.unit} does not stay up: {state.text}")
    return states


def _all_active(keeper: Keeper, services: Sequence[Service]) -> tuple[list[ServiceState] | None, str]:
    states = keeper.states(services)
    down = [f"{state.service.unit} is {state.text}" for state in states if not state.active or state.pid is None]
    return (None if down else states), "; ".join(down)


def _check_release(box: BoxConnection, state: ServiceState, release: str) -> None:
    """By the process itself: what a link names now says nothing of what was started."""
    script = "tr '\\0' '\\n' <\"/proc/$1/cmdline\" | head -n 1"
    interpreter = box.run(script, str(state.pid), what=f"{state.service.unit} has no process").strip()
    if not interpreter.startswith(f"{folder_of(release)}/"):
        raise Unhealthy(f"{state.service.unit} runs {interpreter}, which is not of release {release}")


def _check_other_end(
    box: BoxConnection, installation: Installation, other_end: OtherEnd, since: datetime | None
) -> None:
    """That services work, and are not only there; Flower tells nobody of itself."""
    version = installation.release.rpartition("-")[0]
    if (host := installation.host) is not None:
        _wait(lambda: _introduced(other_end.worker_seen(host), version, since), f"the worker of {host}", _COME_UP_S)
        no_answer = f"the worker of {host} does not answer over the broker"
        _wait(lambda: (other_end.answers(host) or None, "no answer"), no_answer, _COME_UP_S)
    if Service.DISPATCHER in installation.services:
        machine = box.run("uname -n", what="the machine's name cannot be had").strip()
        what = f"the dispatcher on {machine}"
        _wait(lambda: _introduced(other_end.dispatcher_seen(machine), version, since), what, _COME_UP_S)


def _introduced(seen: Seen, version: str, since: datetime | None) -> tuple[bool | None, str]:
    fresh = seen.at is not None and (since is None or seen.at >= since)
    known = f"that knows it as {seen.version}, seen at {seen.at}" if seen.at is not None else "that never heard of it"
    return (True if fresh and seen.version == version else None), f"it did not tell the database {version}; {known}"


def _wait(look: Callable[[], tuple[Found | None, str]], problem: str, limit_s: float) -> Found:
    """What `look` finds at last; its second value says what was seen instead."""
    deadline = time.monotonic() + limit_s
    while True:
        found, seen = look()
        if found is not None:
            return found
        if time.monotonic() > deadline:
            raise Unhealthy(f"{problem}, for {limit_s:.0f} s: {seen}")
        time.sleep(_POLL_S)
