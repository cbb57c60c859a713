"""A sweep across two hosts, each with its own worker, from submit to results."""

from __future__ import annotations

import pytest
from installation import sweep_text

from .commands import CommandFailed
from .fleet import DESK, DISPATCHER, WORKER, Fleet
from .history import History
from .watch import ServerWatch

pytestmark = pytest.mark.multihost

CELLS = (
    "{block_size: 8, budget: 8, topk: 4, window: 2048}",
    "{block_size: 8, budget: 4, topk: 4, window: 2048}",
)


def test_a_sweep_across_two_boxes_runs_to_its_end(hosts: Fleet, history: History, watch: ServerWatch) -> None:
    sweep = hosts.control.submit(sweep_text("two-boxes", hosts=list(hosts.boxes), cells=CELLS))
    history.note(f"submitted {sweep}")
    jobs = hosts.control.wait_final(sweep)
    history.note("every job is final")
    history.take(hosts.desk.log(DISPATCHER), DESK, "woke")
    for name, box in hosts.boxes.items():
        history.take(box.log(WORKER), name, r"attempt\[\d+\] INFO job")
    assert {job["state"] for job in jobs} == {"succeeded"}
    for name in hosts.boxes:
        attempts = [
            attempt for job in jobs if job["host"] == name for attempt in hosts.control.show(job["job_id"])["attempts"]
        ]
        assert len(attempts) == len(CELLS), "one attempt a job"
        assert [f"ddqueue-{attempt['id']}-{attempt['fence']}" for attempt in attempts] == watch.tags(name)
        assert all(len(attempt["measurements"]) == 3 for attempt in attempts)
        watch.wait_gone(name)
        assert hosts.journals(name) == []
    assert watch.together == []
    rows = hosts.control.json("results", sweep)["jobs"]
    assert sorted({row["host"] for row in rows}) == sorted(hosts.boxes)


def test_a_box_with_another_host_key_is_not_spoken_to(hosts: Fleet) -> None:
    """What a deployment over ssh relies on: the harness checks host keys, and they differ from box to box."""
    if not hosts.kind.startswith("booted"):
        pytest.skip(hosts.kind)
    first, second = hosts.boxes.values()
    assert first.run("hostname").strip() == first.name
    assert hosts.keys.ssh(first.address, "sudo", "id", "-u", user="ops").strip() == "0"
    lines = hosts.keys.known_hosts.read_text().splitlines()
    assert len({line.split()[2] for line in lines}) == len(hosts.boxes)
    swapped = hosts.keys.known_hosts.read_text().replace(second.address, "other").replace(first.address, second.address)
    honest = hosts.keys.known_hosts.read_text()
    try:
        hosts.keys.known_hosts.write_text(swapped)
        with pytest.raises(CommandFailed, match="Host key verification failed"):
            second.run("true")
    finally:
        hosts.keys.known_hosts.write_text(honest)
