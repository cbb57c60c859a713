"""Looking after what is deployed: its state, its logs, a restart."""

from __future__ import annotations

from collections.abc import Callable

from ddqueue.errors import UsageError
from deploy import release
from deploy.connection import LIMIT_S
from deploy.health import check_health
from deploy.installation import Installation
from deploy.narration import Outcome
from deploy.rollout import host_without_work
from deploy.subject import Subject

_FOREVER_S = 30 * 86400.0


def restart(subject: Subject) -> str:
    """Start the services anew, after the running job has ended; returns how the box stands.

    Raises:
        UsageError: nothing is deployed there.
        Unhealthy: they do not come back.
    """
    newest = _newest(subject)
    with host_without_work(subject, "restarts its services"):
        with subject.narrator.step("start") as step:
            since = subject.control.now()
            subject.keeper.start(newest)
            step.ended(Outcome.CHANGED, ", ".join(service.unit for service in newest.services))
        with subject.narrator.step("health") as step:
            step.ended(Outcome.PASSED, check_health(subject.box, subject.keeper, newest, subject.control, since))
    return f"runs {newest.release}"


def status(subject: Subject) -> str:
    """Tells how each service is; returns the release that runs.

    Raises:
        UsageError: nothing is deployed there.
    """
    newest = _newest(subject)
    for state in subject.keeper.states(newest.services):
        with subject.narrator.step(state.service.value) as step:
            text = f"{state.text}, pid {state.pid or '-'}, {state.starts} restarts, by {subject.keeper.name}"
            step.ended(Outcome.PASSED if state.active else Outcome.FAILED, text)
    linked = release.current(subject.box)
    if linked != newest.release:
        return f"{newest.release} was deployed, but the link names {linked}"
    return f"{newest.release}; to go back to: {_to_go_back_to(subject)}"


def logs(subject: Subject, lines: int, follow: bool, write: Callable[[bytes], None]) -> str:
    """Print the end of each service's log; with `follow` of the first one, until somebody interrupts.

    Raises:
        UsageError: nothing is deployed there.
    """
    services = subject.wishes.services or _newest(subject).services
    for service in services[:1] if follow else services:
        script = subject.keeper.log_script(service, lines, follow)
        subject.box.ask(script, heard=write, limit_s=_FOREVER_S if follow else LIMIT_S)
    return "printed"


def _newest(subject: Subject) -> Installation:
    newest = subject.history.newest()
    if newest is None:
        raise UsageError(f"nothing is deployed on {subject.target.name}; ddqueue deploy {subject.target.name}")
    return newest


def _to_go_back_to(subject: Subject) -> str:
    previous = subject.history.previous()
    return "nothing" if previous is None else previous.release
