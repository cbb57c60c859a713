"""Examine a host: every look at it ends as checks, whatever goes wrong in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ddqueue.domain.compatibility import SchemaState, refusal
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


def check_database(state: Callable[[], SchemaState], known: str, clock: Callable[[], datetime]) -> list[Check]:
    """That the database answers, has tables that a program of revision `known` can work with, and agrees about the
    time. Raises NotReachable."""
    found = state()
    why_not = refusal(known, found)
    if why_not is not None:
        finding, _, remedy = why_not.rpartition("; ")
        schema = Check("database", Verdict.FAIL, finding, remedy)
    elif found.revision == known:
        schema = Check("database", Verdict.OK, f"reachable, tables at {found.revision}")
    else:
        newer = f"reachable, tables at {found.revision}, newer than this version's {known} and still fit for it"
        schema = Check("database", Verdict.OK, newer)
    before = datetime.now(UTC)
    there = clock()
    here = before + (datetime.now(UTC) - before) / 2
    skew_s = (here - there).total_seconds()
    finding = f"{abs(skew_s):.1f} s {'ahead of' if skew_s > 0 else 'behind'} the database's"
    if abs(skew_s) <= CLOCK_SKEW.total_seconds():
        return [schema, Check("clock", Verdict.OK, finding)]
    return [schema, Check("clock", Verdict.WARN, finding, "let the machine's time be kept by NTP (chrony, timesyncd)")]


def check_version(own: str, dispatchers: Callable[[], Sequence[Mapping[str, Any]]]) -> list[Check]:
    """That this machine runs the ddqueue that the dispatcher runs. Raises NotReachable."""
    seen = dispatchers()
    if not seen:
        return [Check("version", Verdict.OK, f"ddqueue {own}; no dispatcher was seen yet")]
    newest = seen[0]
    if newest["version"] == own:
        return [Check("version", Verdict.OK, f"ddqueue {own}, as the dispatcher on {newest['name']}")]
    finding = f"ddqueue {own}, and the dispatcher on {newest['name']} is {newest['version']}"
    return [Check("version", Verdict.WARN, finding, "install the same version on both when no job is in the way")]


def _made(look: Look) -> Sequence[Check]:
    try:
        return look.make()
    except AttemptFailure as fault:
        return [Check(look.name, Verdict.FAIL, fault.evidence, POLICIES[fault.failure].remedy)]
    except NotReachable as error:
        return [Check(look.name, Verdict.FAIL, str(error), "start the server, or correct its URL in the environment")]
    except (DdqueueError, OSError) as error:
        return [Check(look.name, Verdict.FAIL, str(error), "see the message")]
