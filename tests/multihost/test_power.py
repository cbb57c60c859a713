"""A box that loses its power in the middle of an attempt, and is switched on again."""

from __future__ import annotations

import pytest

from ddqueue.storage.entries import EntryKind

from .fleet import DESK, DISPATCHER, WORKER, Fleet
from .history import History
from .journals import kept
from .ledger import open_ledger, wait_until
from .sweeps import long_sweep
from .watch import ServerWatch

pytestmark = pytest.mark.multihost

REPEATS = 12
UNDELIVERED = 3
"""Measurements that lie only on the box's disk when its power goes."""


def test_a_power_cut_in_the_middle_of_an_attempt(hosts: Fleet, history: History, watch: ServerWatch) -> None:
    """The network goes first, so that something measured is on the disk alone; then the power."""
    name, _ = hosts.boxes
    box = hosts.boxes[name]
    sweep = hosts.control.submit(long_sweep("power-cut", hosts=[name], repeats=REPEATS))
    running = hosts.control.wait_measuring(name)
    (attempt,) = hosts.control.show(running["job_id"])["attempts"]
    with open_ledger(hosts.servers.database_url) as ledger:
        wait_until(lambda: ledger.stored(attempt["id"]) >= 1, "nothing was measured")
        hosts.cut(name)
        stored = ledger.stored(attempt["id"])
        history.note(f"cut off {name}; {stored} measurements are stored")
        (path,) = hosts.journals(name)
        wanted = stored + UNDELIVERED
        wait_until(lambda: kept(path)[EntryKind.MEASUREMENT] >= wanted, "it did not measure on")
        box.power_cut()
        left = kept(path)
        history.note(f"power off; {left[EntryKind.MEASUREMENT]} measurements in the journal it leaves behind")
        assert not box.is_on()
        assert watch.now(name) == []
        box.boot()
        history.note(f"{name} is up again")
        (job,) = hosts.control.wait_final(sweep)
        history.note("the job is final")
        history.take(box.log(WORKER), name, r"Connected to redis", r"attempt\[\d+\] (INFO|WARNING)")
        history.take(hosts.desk.log(DISPATCHER), DESK, "woke")
        assert ledger.stored(attempt["id"]) == left[EntryKind.MEASUREMENT], "what was left behind is delivered"
    assert job["state"] == "succeeded"
    lost, accepted = hosts.control.show(job["job_id"])["attempts"]
    assert (lost["outcome"], accepted["outcome"]) == ("lost", "succeeded")
    assert lost["fence"] < accepted["fence"]
    rows = accepted["measurements"]
    assert sorted(row["repeat"] for row in rows) == list(range(1, REPEATS + 1)), "each repeat once"
    carried = [row for row in rows if row["carried_from"] == lost["id"]]
    assert len(carried) == left[EntryKind.MEASUREMENT], "no measured hour is measured again"
    assert watch.together == []
    assert hosts.journals(name) == []
    watch.wait_gone(name)
