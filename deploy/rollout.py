"""A deployment to one box, step by step: each says whether it changed anything."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import datetime

from ddqueue.errors import DdqueueError, UsageError
from deploy import release
from deploy.checking import check
from deploy.draining import Drained
from deploy.errors import BoxRefused, Unhealthy
from deploy.health import check_health, is_running, with_evidence
from deploy.installation import Installation
from deploy.making import make_release, prune
from deploy.narration import Outcome
from deploy.services import Service
from deploy.subject import Subject
from deploy.wheel import Wheel


def deploy(subject: Subject, wheel: Wheel) -> str:
    """Bring the box to this wheel, and back if it does not work; returns how it stands.

    Raises:
        BoxRefused, UsageError, NotReachable: before anything that runs was touched.
        Unhealthy: it did not work; the text says what the box has now.
    """
    reading = check(subject)
    make_release(subject, wheel, reading)
    services = subject.services()
    wanted = subject.installation(wheel.release, services, subject.worker_host(services))
    before = subject.history.newest()
    if before == wanted and _is_in_place(subject, wanted):
        _say_unchanged(subject, wanted)
        return f"runs {wheel.release}, as before"
    _bring(subject, before, wanted)
    if before != wanted:
        subject.history.add(wanted, subject.by)
    prune(subject, wheel.release)
    return f"runs {wheel.release}"


def roll_back(subject: Subject) -> str:
    """Bring the box to the deployment before the newest; returns how it stands.

    Raises:
        UsageError: there is none.
        Unhealthy: that one works no more; the text says what the box has now.
    """
    newest, previous = subject.history.newest(), subject.history.previous()
    if newest is None or previous is None:
        raise UsageError(f"{subject.target.name} has no earlier deployment to go back to")
    if not release.is_whole(subject.box, previous.release):
        raise UsageError(f"{previous.release} is no longer whole on {subject.target.name}; deploy its wheel: --wheel")
    _bring(subject, newest, previous)
    subject.history.drop_newest()
    return f"went back from {newest.release} to {previous.release}"


def _bring(subject: Subject, before: Installation | None, wanted: Installation) -> None:
    with host_without_work(subject, f"deploys {wanted.release}"):
        try:
            since = _activate(subject, wanted)
            with subject.narrator.step("health") as step:
                seen = check_health(subject.box, subject.keeper, wanted, subject.control, since)
                step.ended(Outcome.PASSED, seen)
        except DdqueueError as error:
            raise _go_back(subject, before, wanted, error) from error


@contextlib.contextmanager
def host_without_work(subject: Subject, what: str) -> Iterator[None]:
    """Let the running job of the box's host end, and keep others away meanwhile; `what` says why, to whoever looks."""
    host = subject.target.host
    if host is None:
        yield
        return
    with Drained(subject.control, host.name, f"{subject.by} {what}") as drained:
        with subject.narrator.step("drain") as step:
            if not is_running(subject.keeper, [Service.WORKER]):
                step.changed(False, "no worker runs here")
            elif subject.wishes.now:
                step.changed(False, "--now: what runs is stopped, and its job waits again")
            else:
                job = drained.wait(step.tell)
                step.changed(job is not None, "nothing runs" if job is None else f"job {job} has ended")
        yield


def _activate(subject: Subject, wanted: Installation) -> datetime:
    """Configuration, link, start; returns the database's time before the start."""
    with subject.narrator.step("configuration") as step:
        written = [file.path for file in wanted.files if subject.box.write(file.path, file.content, file.mode)]
        step.changed(bool(written), ", ".join(written) or "as it was")
    with subject.narrator.step("link") as step:
        step.changed(release.switch(subject.box, wanted.release), wanted.release)
    with subject.narrator.step("start") as step:
        since = subject.control.now()
        try:
            subject.keeper.start(wanted)
        except BoxRefused as error:
            raise with_evidence(subject.box, subject.keeper, wanted.services, error) from error
        step.ended(Outcome.CHANGED, ", ".join(service.unit for service in wanted.services))
    return since


def _go_back(subject: Subject, before: Installation | None, wanted: Installation, error: DdqueueError) -> Unhealthy:
    """What to raise, once the box has again what it had."""
    what = f"{wanted.release} does not work: {error}"
    if before is None:
        try:
            with subject.narrator.step("back") as step:
                subject.keeper.stop(wanted)
                paths = [file.path for file in wanted.files]
                subject.box.run('rm -f -- "$@"', *paths, what="the configuration cannot be removed")
                subject.keeper.forget(wanted)
                step.ended(Outcome.CHANGED, "stopped, and its files removed: nothing was deployed here before")
        except DdqueueError as second:
            return Unhealthy(f"{what}\nand it could not be stopped: {second}")
        return Unhealthy(f"{what}\nnothing was deployed here before: the services are stopped, their files removed")
    try:
        since = _activate(subject, before)
        with subject.narrator.step("back") as step:
            seen = check_health(subject.box, subject.keeper, before, subject.control, since)
            step.ended(Outcome.CHANGED, f"{before.release}: {seen}")
    except DdqueueError as second:
        return Unhealthy(
            f"{what}\nand going back to {before.release} failed, too: {second}\n"
            "the box may run either; the same command once more, or --rollback, puts it right"
        )
    return Unhealthy(f"{what}\nthe box is back at {before.release}, which works")


def _is_in_place(subject: Subject, wanted: Installation) -> bool:
    """Whether everything is as it was deployed, whoever has changed it since."""
    return (
        release.current(subject.box) == wanted.release
        and all(subject.box.holds(file.path, file.content, file.mode) for file in wanted.files)
        and is_running(subject.keeper, wanted.services)
    )


def _say_unchanged(subject: Subject, wanted: Installation) -> None:
    for name, text in (("drain", "not needed"), ("configuration", "as it was"), ("link", wanted.release)):
        with subject.narrator.step(name) as step:
            step.changed(False, text)
    with subject.narrator.step("start") as step:
        step.changed(False, "it runs")
    with subject.narrator.step("health") as step:
        seen = check_health(subject.box, subject.keeper, wanted, subject.control, since=None)
        step.ended(Outcome.PASSED, seen)
