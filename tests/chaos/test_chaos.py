"""A short run of the whole suite keeps every promise, and runs of deliberately broken builds show it would notice."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .check_clients import acknowledged_count, acknowledged_jobs
from .check_jobs import FINAL
from .checker import check
from .faults import FaultKind
from .history import History, Outcome
from .report import report
from .run import Options, run
from .violation import Promise
from .world import open_folder

SERVING = 2
"""A seed whose first fault on an attempt waits until the attempt's server runs."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that the servers' account can enter; pytest's own are closed to everybody but the caller."""
    made = open_folder()
    yield made
    shutil.rmtree(made, ignore_errors=True)


def run_and_tell(options: Options, folder: Path) -> History:
    finished = run(options, folder, print)
    for line in report(finished, check(finished.history)):
        print(line)
    return finished.history


def broken_promises(options: Options, folder: Path) -> set[Promise]:
    return {violation.promise for violation in check(run_and_tell(options, folder))}


def test_a_short_run_breaks_no_promise(folder: Path) -> None:
    history = run_and_tell(Options(jobs=12, seed=7), folder)
    assert check(history) == []
    assert acknowledged_count(history.commands) == 12
    assert all(job["state"] in FINAL for job in acknowledged_jobs(history.commands, history.tables))
    assert any(strike.outcome is Outcome.HIT for strike in history.strikes)
    assert history.stale_writes, "stale fences were tried"
    attempts = {row["id"] for row in history.tables.attempts if row["outcome"] == "succeeded"}
    assert history.watched.journalled, "the watcher read journals"
    assert attempts <= {lifetime.attempt_id for lifetime in history.watched.lifetimes}, "the watcher saw every server"


def test_without_the_fence_check_stale_writes_are_found(folder: Path) -> None:
    kinds = (FaultKind.ATTEMPT_KILLED,)
    options = Options(jobs=2, seed=SERVING, hosts=1, kinds=kinds, strikes=1, broken="fence")
    assert broken_promises(options, folder) == {Promise.FENCED}


def test_without_inheritance_the_lock_is_found_free(folder: Path) -> None:
    kinds = (FaultKind.REDIS_CUT,)
    options = Options(jobs=2, seed=1, hosts=1, kinds=kinds, strikes=1, broken="inherit")
    assert broken_promises(options, folder) == {Promise.LOCK_KEPT}


def test_without_ownership_two_use_one_host(folder: Path) -> None:
    kinds = (FaultKind.ATTEMPT_KILLED,)
    options = Options(
        jobs=2, seed=SERVING, hosts=1, kinds=kinds, strikes=1, broken="ownership", calm_limit_s=40.0
    )  # fmt: skip
    assert Promise.ONE_OWNER in broken_promises(options, folder)
