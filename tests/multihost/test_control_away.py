"""The control host gone for a while, as by a power cut: its servers killed, its address silent."""

from __future__ import annotations

import time

import pytest

from ddqueue.storage.entries import EntryKind

from .fleet import DESK, DISPATCHER, WORKER, Fleet
from .history import History
from .journals import kept, wait_delivered, wait_finished
from .sweeps import long_sweep
from .watch import ServerWatch

pytestmark = pytest.mark.multihost

REPEATS = 8
AWAY_S = 15.0

STORY = (r"Connect", "the journal keeps it", r"attempt\[\d+\] INFO", "did not answer", "INFO leading", "woke ")


def test_the_control_host_is_away_for_a_while(hosts: Fleet, history: History, watch: ServerWatch) -> None:
    """Both boxes finish what they hold without it, deliver it when it is back, and go on with the rest."""
    names = list(hosts.boxes)
    sweep = hosts.control.submit(long_sweep("control-away", hosts=names, repeats=REPEATS, cells=2))
    for name in names:
        hosts.control.wait_measuring(name)
    away_s = time.monotonic()
    hosts.cut(*names, DESK)
    hosts.servers.kill()
    history.note("the control host is gone: no packets, Postgres and Valkey killed")
    journals = {name: hosts.journals(name) for name in names}
    assert all(len(paths) == 1 for paths in journals.values()), "each box holds one attempt"
    for name in names:
        (path,) = journals[name]
        wait_finished(path)
        history.note(f"finished; {kept(path)[EntryKind.MEASUREMENT]} measurements wait on its disk", name)
        assert kept(path)[EntryKind.MEASUREMENT] == REPEATS
    time.sleep(max(0.0, AWAY_S - (time.monotonic() - away_s)))
    hosts.servers.start()
    hosts.heal(*names, DESK)
    history.note(f"the control host is back after {time.monotonic() - away_s:.1f} s")
    for name in names:
        (path,) = journals[name]
        wait_delivered(path)
        history.note("delivered", name)
    jobs = hosts.control.wait_final(sweep)
    history.note("every job is final")
    for name, box in hosts.boxes.items():
        history.take(box.log(WORKER), name, *STORY)
    history.take(hosts.desk.log(DISPATCHER), DESK, *STORY)
    assert [job["state"] for job in jobs] == ["succeeded"] * 4
    for job in jobs:
        (only,) = hosts.control.show(job["job_id"])["attempts"]
        assert only["outcome"] == "succeeded"
        assert [row["repeat"] for row in only["measurements"]] == list(range(1, REPEATS + 1))
    assert watch.together == []
    assert all(hosts.journals(name) == [] for name in names)
