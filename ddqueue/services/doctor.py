"""Examine a host: every look at it ends as checks, whatever goes wrong in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ddqueue.domain.failures import POLICIES, AttemptFailure
from ddqueue.domain.health import Check, Verdict
from ddqueue.errors import DdqueueError, NotReachable

CLOCK_SKEW = timedelta(seconds=2)
"""Leases go by the database's clock alone; times of steps are this host's, and beyond this they no longer fit."""


@dataclass(frozen=True)
class Look:
    """One part of an examination; `name` names its check if it cannot even be made."""

    name: str
    make: Callable[[], Sequence[Check]]


def examine(looks: Sequence[Look], tell: Callable[[Check], None]) -> list[Check]:
    """Every check of every look, in order; each is told as soon as it is there."""
    checks = []
    for look in looks:
        for check in _made(look):
            tell(check)
            checks.append(check)
    return checks


def check_database(
    current_schema: Callable[[], str | None], needed_schema: str, clock: Callable[[], datetime]
) -> list[Check]:
    """That the database answers, has this version's tables, and agrees about the time. Raises NotReachable."""
    found = current_schema()
    if found == needed_schema:
        schema = Check("database", Verdict.OK, f"reachable, tables at {found}")
    else:
        at = f"its tables are at {found or 'nothing'}, this version needs {needed_schema}"
        schema = Check("database", Verdict.FAIL, at, "run: ddqueue db upgrade")
    before = datetime.now(UTC)
    there = clock()
    here = before + (datetime.now(UTC) - before) / 2
    skew_s = (here - there).total_seconds()
    finding = f"{abs(skew_s):.1f} s {'ahead of' if skew_s > 0 else 'behind'} the database's"
    if abs(skew_s) <= CLOCK_SKEW.total_seconds():
        return [schema, Check("clock", Verdict.OK, finding)]
    return [schema, Check("clock", Verdict.WARN, finding, "let the machine's time be kept by NTP (chrony, timesyncd)")]


def _made(look: Look) -> Sequence[Check]:
    try:
        return look.make()
    except AttemptFailure as fault:
        return [Check(look.name, Verdict.FAIL, fault.evidence, POLICIES[fault.failure].remedy)]
    except NotReachable as error:
        return [Check(look.name, Verdict.FAIL, str(error), "start the server, or correct its URL in the environment")]
    except (DdqueueError, OSError) as error:
        return [Check(look.name, Verdict.FAIL, str(error), "see the message")]
