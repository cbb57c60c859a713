"""What is printed of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from .check_clients import acknowledged_count, acknowledged_jobs
from .check_jobs import FINAL
from .faults import FaultKind
from .history import History, Outcome
from .run import Finished
from .violation import Violation

_SHOWN = 25


def report(finished: Finished, violations: Sequence[Violation]) -> Iterator[str]:
    """The lines, in order."""
    history = finished.history
    yield from _faults(history)
    yield ""
    yield from _jobs(history)
    yield from _watched(history)
    for name, codes in finished.exit_codes.items():
        yield f"{name} ended {len(codes)} times: {_listed(Counter(f'x exit {code}' for code in codes))}"
    if finished.journals:
        yield f"journals left: {', '.join(finished.journals)}"
    for reason, times in Counter(finished.quarantines).most_common():
        yield f"quarantined {times} times, and released: {reason}"
    yield ""
    yield f"violations: {len(violations)}"
    yield from (f"  {violation}" for violation in violations[:_SHOWN])
    if len(violations) > _SHOWN:
        yield f"  and {len(violations) - _SHOWN} more"


def hit_by_kind(history: History) -> Counter[FaultKind]:
    return Counter(strike.kind for strike in history.strikes if strike.outcome is Outcome.HIT)


def _faults(history: History) -> Iterator[str]:
    counts = Counter((strike.kind, Outcome(strike.outcome)) for strike in history.strikes)
    yield f"{'faults':<22}" + "".join(f"{outcome:>9}" for outcome in Outcome)
    for kind in FaultKind:
        if any(counts[kind, outcome] for outcome in Outcome):
            yield f"  {kind:<20}" + "".join(f"{counts[kind, outcome]:>9}" for outcome in Outcome)
    kinds = len(hit_by_kind(history))
    yield f"  {f'{kinds} kinds hit':<20}" + "".join(
        f"{sum(counts[kind, outcome] for kind in FaultKind):>9}" for outcome in Outcome
    )


def _jobs(history: History) -> Iterator[str]:
    jobs = acknowledged_jobs(history.commands, history.tables)
    told = acknowledged_count(history.commands)
    states = Counter(str(job["state"]) for job in jobs)
    final = sum(states[state] for state in FINAL)
    yield f"jobs: {final} of {told} acknowledged ones final ({_listed(states)})"
    more = len(history.tables.jobs) - len(jobs)
    if more:
        yield f"  and {more} of submissions whose answer was lost"
    outcomes = Counter(str(row["outcome"]) for row in history.tables.attempts)
    failures = Counter(str(row["failure"]) for row in history.tables.attempts if row["outcome"] == "failed")
    yield f"attempts: {len(history.tables.attempts)} ({_listed(outcomes)})"
    if failures:
        yield f"  failed: {_listed(failures)}"
    codes = Counter((command.name, command.exit_code) for command in history.commands)
    listed = ", ".join(f"{name} {count} x exit {code}" for (name, code), count in sorted(codes.items(), key=str))
    yield f"clients: {listed}"


def _watched(history: History) -> Iterator[str]:
    watched = history.watched
    yield (
        f"watched: {len(watched.lifetimes)} server processes, {len(watched.ownerships)} ownerships,"
        f" {len(watched.journalled)} journalled repeats,"
        f" longest gap {watched.longest_gap_s * 1000:.0f} ms"
    )
    answers = Counter(write.answer for write in history.stale_writes)
    yield f"stale writes tried: {len(history.stale_writes)} ({_listed(answers)})"
    yield f"rows audited by commit time: {len(history.tables.writes)}"


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "none"
