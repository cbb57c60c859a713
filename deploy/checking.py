"""The step before all others: look at the box, and refuse it with reason and remedy."""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.health import Check, Verdict
from deploy.checks import Needs, certificates_of, judge, places_of, question
from deploy.errors import BoxRefused
from deploy.health import is_running
from deploy.narration import Outcome
from deploy.reading import Reading, read_box
from deploy.services import Service
from deploy.subject import Subject


def check(subject: Subject, tell_all: bool = False) -> Reading:
    """Changes nothing. `tell_all`: what is fine is told, too, and not only what a person should know.

    Raises:
        BoxRefused: a check failed; every failed one, with its remedy.
        UsageError: the box is not what the inventory says.
        NotReachable: the box, or the broker from this side.
    """
    with subject.narrator.step("checks") as step:
        services = subject.services()
        host = subject.worker_host(services)
        urls = (subject.shared.database_url, subject.shared.redis_url)
        needs = Needs(host, subject.inventory, places_of(*urls), certificates_of(*urls))
        reading = read_box(subject.box, question(needs), subject.wishes.python)
        checks = [*judge(reading, needs), *_other_worker(subject, services)]
        for one in checks:
            if tell_all or one.verdict is Verdict.WARN:
                step.tell(f"{one.verdict:<4}  {_told(one)}")
        if failed := [_told(one) for one in checks if one.verdict is Verdict.FAIL]:
            raise BoxRefused("\n".join(failed))
        warnings = sum(one.verdict is Verdict.WARN for one in checks)
        step.ended(Outcome.PASSED, f"{len(checks)} checks" + (f", {warnings} warnings" if warnings else ""))
        return reading


def _other_worker(subject: Subject, services: Sequence[Service]) -> list[Check]:
    """That nobody else serves the host: two workers of one host would take each other's wake-ups."""
    host = subject.target.host
    if host is None or Service.WORKER not in services:
        return []
    if is_running(subject.keeper, [Service.WORKER]) or not subject.control.answers(host.name):
        return [Check("worker", Verdict.OK, "no other one serves this host")]
    remedy = "stop that one first; it was started by hand, or runs on another machine"
    return [Check("worker", Verdict.FAIL, f"another worker already serves {host.name}", remedy)]


def _told(check: Check) -> str:
    return f"{check.name}: {check.finding}" + (f"; {check.remedy}" if check.remedy else "")
