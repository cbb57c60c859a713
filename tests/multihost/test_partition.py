"""A box cut off in the middle of an attempt, and healed: packets vanish, and no side is told."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from ddqueue.storage.entries import EntryKind

from .clients import ATTEMPT_TO_POSTGRES, DISPATCHER_TO_POSTGRES, WORKER_TO_REDIS, Reaction, reaction
from .fleet import DESK, DISPATCHER, WORKER, Fleet
from .history import History
from .journals import kept
from .ledger import open_ledger, wait_until
from .sweeps import long_sweep
from .watch import ServerWatch

pytestmark = pytest.mark.multihost

CUT_S = 15.0
"""The kernel sends again what nobody acknowledges after 0.2 s, 0.4 s, and so on: here its next try would come some ten
seconds after the heal, so that whoever only waits for it is seen to be late."""
REPEATS = 20
"""Enough for an attempt that measures through the whole cut and some time after it."""

STORY = (
    r"Connection to broker lost",
    r"Connected to redis",
    r"the journal keeps it",
    r"attempt\[\d+\] INFO job",
    r"did not answer",
    r"INFO leading",
    r"woke ",
    r"Task .* received",
    r"Cannot connect",
)


def test_a_box_cut_off_in_the_middle_of_an_attempt(hosts: Fleet, history: History, watch: ServerWatch) -> None:
    """The box and the dispatcher's host are cut off from the servers; the other box is not."""
    away, near = hosts.boxes
    sweep = hosts.control.submit(long_sweep("cut-off", hosts=[away, near], repeats=REPEATS))
    running = hosts.control.wait_measuring(away)
    (attempt,) = hosts.control.show(running["job_id"])["attempts"]
    with open_ledger(hosts.servers.database_url) as ledger:
        wait_until(lambda: ledger.stored(attempt["id"]) >= 2, "nothing was measured")
        cut_at = history.note(f"cut off {away} and {DESK}; {ledger.stored(attempt['id'])} measurements are stored")
        hosts.cut(away, DESK)
        (path,) = hosts.journals(away)
        before = kept(path)[EntryKind.MEASUREMENT]
        # To a dispatcher that cannot hear it: for its dead session Postgres now holds bytes that nobody acknowledges.
        ledger.announce()
        later = hosts.control.submit(long_sweep("meanwhile", hosts=[away, near], repeats=1))
        history.note(f"submitted {later}")
        wait_until(lambda: ledger.lease_has_expired(away), "the lease never ran out")
        history.note("the lease has run out", "Postgres")
        time.sleep(max(0.0, CUT_S - (datetime.now(UTC) - cut_at).total_seconds()))
        stored, held = ledger.stored(attempt["id"]), kept(path)[EntryKind.MEASUREMENT]
        leased = ledger.lease(away)
        assert watch.now(away), "the server measures on"
        healed_at = history.note(f"healed; {stored} measurements are stored, {held} in the journal")
        hosts.heal(away, DESK)
        wait_until(lambda: ledger.lease(away) != leased, "no heartbeat came")
        heartbeat_at = history.note("a heartbeat came", "Postgres")
        wait_until(lambda: ledger.stored(attempt["id"]) > stored, "nothing more was stored")
        delivered_at = history.note("a measurement came", "Postgres")
    assert held > before, "it measured on while it was cut off"

    jobs = hosts.control.wait_final(sweep) + hosts.control.wait_final(later)
    history.note("every job is final")
    box_log = history.take(hosts.boxes[away].log(WORKER), away, *STORY)
    desk_log = history.take(hosts.desk.log(DISPATCHER), DESK, *STORY)
    lost = reaction(ATTEMPT_TO_POSTGRES, box_log, cut_at, healed_at)
    reactions = [
        reaction(WORKER_TO_REDIS, box_log, cut_at, healed_at),
        Reaction(lost.client, lost.noticed_s, (max(heartbeat_at, delivered_at) - healed_at).total_seconds()),
        reaction(DISPATCHER_TO_POSTGRES, desk_log, cut_at, healed_at),
    ]
    for one in reactions:
        history.note(one.text, "measured")

    assert {job["state"] for job in jobs} == {"succeeded"}
    for job in jobs:
        (only,) = hosts.control.show(job["job_id"])["attempts"]
        assert only["outcome"] == "succeeded"
        repeats = REPEATS if job in jobs[:2] else 1
        assert [row["repeat"] for row in only["measurements"]] == list(range(1, repeats + 1)), "nothing was lost"
    assert watch.together == [], "no job ran twice at once"
    assert hosts.journals(away) == []
    assert [fault for one in reactions for fault in one.faults()] == []


def test_an_idle_box_cut_off_hears_the_next_wake_up(hosts: Fleet, history: History, watch: ServerWatch) -> None:
    """A worker that waits for work on a connection nobody answers: it must not stay deaf."""
    away, _ = hosts.boxes
    cut_at = history.note(f"cut off {away}, which is idle")
    hosts.cut(away)
    sweep = hosts.control.submit(long_sweep("while-deaf", hosts=[away], repeats=1))
    history.note(f"submitted {sweep}")
    time.sleep(max(0.0, CUT_S - (datetime.now(UTC) - cut_at).total_seconds()))
    healed_at = history.note("healed")
    hosts.heal(away)
    (job,) = hosts.control.wait_final(sweep)
    history.note("the job is final")
    box_log = history.take(hosts.boxes[away].log(WORKER), away, *STORY)
    history.take(hosts.desk.log(DISPATCHER), DESK, *STORY)
    met = reaction(WORKER_TO_REDIS, box_log, cut_at, healed_at)
    history.note(met.text, "measured")
    assert job["state"] == "succeeded"
    assert len(hosts.control.show(job["job_id"])["attempts"]) == 1
    assert watch.together == []
    assert met.faults() == []
