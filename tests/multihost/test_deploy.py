"""From two boxes that never heard of ddqueue to a running sweep, and back to two such boxes.

The tests are one story and run in this order; each says in its first lines what it needs of those before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from installation import sweep_text

from ddqueue.files.examples import example
from deploy import layout
from deploy.wheel import Wheel

from . import leftovers
from .conftest import Say
from .deploying import Deployer, break_worker, files_of, make_wheel
from .fleet import DESK, DISPATCHER, WORKER, Fleet, timed
from .history import History
from .ledger import open_ledger, wait_until
from .sweeps import long_sweep
from .watch import ServerWatch

pytestmark = pytest.mark.multihost

STEPS_OF_A_CHANGE = ("release", "configuration", "link", "start")


@dataclass(frozen=True)
class Story:
    """What the tests of this file share."""

    fleet: Fleet
    deployer: Deployer
    first: Wheel
    second: Wheel
    broken: Wheel
    files_before: dict[str, set[str]]
    users_before: dict[str, str]

    @property
    def names(self) -> list[str]:
        return list(self.fleet.boxes)

    def runs(self, name: str) -> str:
        """The release that the box's worker process belongs to."""
        box = self.fleet.boxes[name]
        pid = box.run("systemctl", "show", "--value", "--property=MainPID", WORKER).strip()
        return box.run("cat", f"/proc/{pid}/cmdline").split("\0")[0].removeprefix(f"{layout.RELEASES}/").split("/")[0]


@pytest.fixture(scope="module")
def story(hosts: Fleet, say: Say) -> Iterator[Story]:
    """Both boxes without ddqueue, as they were delivered; afterwards as the other tests want them."""
    if not hosts.kind.startswith("booted"):
        pytest.skip(hosts.kind)
    folder = leftovers.STATE / "deploying"
    folder.mkdir()
    for box in hosts.boxes.values():
        box.run("systemctl", "disable", "--now", WORKER)
        unit, environment = f"/etc/systemd/system/{WORKER}.service", f"/etc/{WORKER}.env"
        box.run("rm", "-r", "--", box.home, unit, environment)
        box.run("systemctl", "daemon-reload")
    with timed(say, "three wheels"):
        wheels = (
            make_wheel(folder, "0.9.1"),
            make_wheel(folder, "0.9.2"),
            make_wheel(folder, "0.9.3", break_worker),
        )
    yield Story(
        hosts,
        Deployer(hosts, folder),
        *wheels,
        files_before={name: files_of(box.outside("/")) for name, box in hosts.boxes.items()},
        users_before={name: box.outside("/etc/passwd").read_text() for name, box in hosts.boxes.items()},
    )
    hosts.install_workers()
    hosts.wait_ready()


def test_a_box_whose_key_nobody_knows_is_not_touched(story: Story, history: History, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    lines = story.fleet.keys.known_hosts.read_text().splitlines()
    first, second = story.fleet.boxes.values()
    # The first box's key is unknown; the second shows another one than the known.
    (its_line,) = [line for line in lines if line.startswith(f"{first.address} ")]
    known.write_text(its_line.replace(first.address, second.address) + "\n")
    told = story.deployer.run(first.name, second.name, "--wheel", str(story.first.path), code=1, known_hosts=known)
    history.note("both refused")
    unknown, changed = told.host(first.name)["problem"], told.host(second.name)["problem"]
    assert f"the host key of {first.address}:22 is not known in {known}" in unknown
    assert f"ssh-keyscan -p 22 {first.address}" in unknown
    assert "shows another host key" in changed
    assert f"ssh-keygen -R '{second.address}' -f {known}" in changed
    for box in (first, second):
        assert not box.outside(layout.ROOT).exists()


def test_a_box_that_fails_a_check_is_refused_and_the_other_goes_on(story: Story, history: History) -> None:
    good, bad = story.names
    borrow = ", borrow: {take: /opt/production/stop now, give_back: /opt/production/start}"
    story.deployer.inventory.write_text(story.deployer.inventory_text(borrow))
    told = story.deployer.deploy(story.first, good, bad, code=1)
    history.note(f"{good} is deployed in {told.host(good)['took_s']} s, {bad} refused")
    story.deployer.inventory.write_text(story.deployer.inventory_text())
    problem = told.host(bad)["problem"]
    assert "engines: not there, or not executable: /opt/production/start, /opt/production/stop" in problem
    assert str(story.deployer.inventory) in problem, "where to mend it"
    assert told.outcomes(bad) == {"connect": "passed", "checks": "failed"}
    assert files_of(story.fleet.boxes[bad].outside("/")) == story.files_before[bad]
    assert told.host(good)["done"]
    assert story.runs(good) == story.first.release


def test_both_boxes_are_deployed_and_a_second_time_nothing_changes(story: Story, history: History) -> None:
    """The first box has the release already, and another inventory."""
    first, second = story.names
    told = story.deployer.deploy(story.first, first, second)
    history.note(f"deployed in {[told.host(name)['took_s'] for name in story.names]} s")
    assert {step: told.outcomes(second)[step] for step in STEPS_OF_A_CHANGE} == dict.fromkeys(
        STEPS_OF_A_CHANGE, "changed"
    )
    changed = {"release": "unchanged", "configuration": "changed", "link": "unchanged", "start": "changed"}
    assert {step: told.outcomes(first)[step] for step in STEPS_OF_A_CHANGE} == changed
    again = story.deployer.deploy(story.first, first, second)
    history.note(f"again, in {[again.host(name)['took_s'] for name in story.names]} s")
    for name in story.names:
        assert set(again.outcomes(name).values()) == {"passed", "unchanged"}
        assert story.runs(name) == story.first.release
        environment = story.fleet.boxes[name].outside(layout.ENVIRONMENT)
        assert environment.stat().st_mode & 0o777 == 0o600
    password = story.fleet.servers.database_url.split("@")[0].rsplit(":", 1)[1]
    assert password in environment.read_text()
    assert password not in told.steps + str(told.document), "no secret is printed"


def test_a_sweep_runs_across_both(
    story: Story, history: History, watch: ServerWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The five trees and the baseline that the project grew from, as the demo runs them."""
    control = story.fleet.control
    sweep = control.submit(example("demo.yaml"))
    with monkeypatch.context() as patient:
        patient.setattr(control, "patience_s", 900.0)  # sixteen jobs
        jobs = control.wait_final(sweep)
    assert len(jobs) == 16
    history.note("every job is final")
    history.take(story.fleet.desk.log(DISPATCHER), DESK, "woke")
    assert {job["state"] for job in jobs} == {"succeeded"}
    assert sorted({job["host"] for job in jobs}) == sorted(story.names)
    for job in jobs:
        assert len(control.show(job["job_id"])["attempts"]) == 1
    assert watch.together == []


def test_an_upgrade_waits_for_the_job_that_runs(story: Story, history: History, watch: ServerWatch) -> None:
    """And the jobs after it run on the new version: nothing is lost, nothing runs twice.

    The new version was there once before: an upgrade that has to build its release might come after the last job.
    """
    name, _ = story.names
    control = story.fleet.control
    told = story.deployer.deploy(story.second, name)
    history.note(f"an idle box is upgraded in {told.host(name)['took_s']} s")
    told = story.deployer.run(name, "--rollback")
    history.note(f"and goes back in {told.host(name)['took_s']} s")
    assert story.runs(name) == story.first.release
    sweep = control.submit(long_sweep("upgraded", hosts=[name], repeats=20, cells=4))
    running = control.wait_measuring(name)
    history.note(f"the upgrade begins, job {running['job_id']} runs")
    told = story.deployer.deploy(story.second, name)
    history.note(f"upgraded in {told.host(name)['took_s']} s")
    assert told.outcomes(name)["release"] == "unchanged"
    jobs = control.wait_final(sweep)
    history.note("every job is final")
    assert {job["state"] for job in jobs} == {"succeeded"}
    attempts = [control.show(job["job_id"])["attempts"] for job in jobs]
    assert [len(one) for one in attempts] == [1] * len(jobs), "each job once"
    versions = [one["provenance"]["ddqueue"] for (one,) in sorted(attempts, key=lambda found: found[0]["id"])]
    assert versions == sorted(versions), "no job runs on the old version after one on the new"
    assert {versions[0], versions[-1]} == {story.first.version, story.second.version}
    assert story.runs(name) == story.second.release
    assert story.fleet.control.host(name)["held_at"] is None, "the host is given back to the queue"
    assert watch.together == []


def test_a_release_that_does_not_work_is_rolled_back(story: Story, history: History, watch: ServerWatch) -> None:
    name, _ = story.names
    before = story.runs(name)
    told = story.deployer.deploy(story.broken, name, code=1)
    history.note(f"rolled back in {told.host(name)['took_s']} s")
    problem = told.host(name)["problem"]
    assert f"{story.broken.release} does not work" in problem
    assert "broken on purpose" in problem, "the end of its log says why"
    assert f"the box is back at {before}, which works" in problem
    assert story.runs(name) == before
    sweep = story.fleet.control.submit(sweep_text("after-roll-back", hosts=[name]))
    (job,) = story.fleet.control.wait_final(sweep)
    history.note("a job ran")
    assert job["state"] == "succeeded"


def test_a_persons_hold_stays_and_a_person_can_go_back(story: Story, history: History) -> None:
    """The second version was deployed before, the first one before that."""
    name, _ = story.names
    control = story.fleet.control
    control.run("hold", name, "--reason", "I look at it")
    told = story.deployer.run(name, "--rollback")
    history.note(f"went back in {told.host(name)['took_s']} s")
    assert story.runs(name) == story.first.release
    assert control.host(name)["hold_reason"] == "I look at it"
    control.run("release", name)


def test_what_runs_can_be_seen_and_started_anew(story: Story, history: History) -> None:
    name, other = story.names
    said = story.deployer.run(name, other, "--status")
    for box in story.names:
        (state,) = [step for step in said.host(box)["steps"] if step["name"] == "worker"]
        assert (state["outcome"], state["text"].split(",")[0]) == ("passed", "active (running)")
    box = story.fleet.boxes[name]
    pid = box.run("systemctl", "show", "--value", "--property=MainPID", WORKER)
    told = story.deployer.run(name, "--restart")
    history.note(f"restarted in {told.host(name)['took_s']} s")
    assert box.run("systemctl", "show", "--value", "--property=MainPID", WORKER) != pid
    assert f"gpu@{name} ready." in story.deployer.logs(name, "--lines", "3")


def test_now_stops_the_attempt_and_its_job_goes_on_afterwards(
    story: Story, history: History, watch: ServerWatch
) -> None:
    name, _ = story.names
    control = story.fleet.control
    sweep = control.submit(long_sweep("stopped", hosts=[name], repeats=20))
    control.wait_measuring(name)
    told = story.deployer.run(name, "--restart", "--now")
    history.note(f"restarted in {told.host(name)['took_s']} s")
    (job,) = control.wait_final(sweep)
    history.note("the job is final")
    stopped, accepted = control.show(job["job_id"])["attempts"]
    assert (job["state"], accepted["outcome"]) == ("succeeded", "succeeded")
    assert stopped["outcome"] != "succeeded"
    assert job["tries"] == 1, "a stopped attempt uses none"
    assert watch.together == []


def test_two_operators_do_not_deploy_at_once(story: Story) -> None:
    name, _ = story.names
    script = f"exec 9>{layout.LOCK}; flock 9; echo 'Alice since noon' >{layout.LOCK}; echo $$; exec sleep 600"
    box = story.fleet.boxes[name]
    box.run("systemd-run", "--unit=alice", "sh", "-c", script)
    wait_until(lambda: _locked(story, name), "the lock was not taken")
    try:
        told = story.deployer.run(name, "--restart", code=1)
    finally:
        box.run("systemctl", "stop", "alice")
    assert told.host(name)["problem"] == f"somebody else deploys to {name} just now: Alice since noon"


def test_a_rebooted_box_comes_back_by_itself(story: Story, history: History, watch: ServerWatch) -> None:
    name, _ = story.names
    box = story.fleet.boxes[name]
    control = story.fleet.control
    lines = box.log(WORKER).count(" ready.")
    box.shut_down()
    history.note(f"{name} is off")
    sweep = control.submit(sweep_text("rebooted", hosts=[name]))
    box.boot()
    history.note(f"{name} is up")
    wait_until(lambda: box.log(WORKER).count(" ready.") > lines, "its worker did not come back")
    history.note("its worker listens")
    (job,) = control.wait_final(sweep)
    history.note("a job ran")
    assert job["state"] == "succeeded"


def test_what_is_not_yet_stored_is_not_removed(story: Story) -> None:
    name, _ = story.names
    # No attempt touches what the database has refused: it is kept for a person.
    path = f"{layout.STATE}/journal/{name}/attempt-999.jsonl.refused"
    journal = story.fleet.boxes[name].outside(path)
    journal.write_text("{}\n")
    told = story.deployer.run(name, "--remove", code=1)
    assert f"{path}; start the worker again" in told.host(name)["problem"]
    assert journal.exists()
    assert told.outcomes(name)["stop"] == "changed"
    story.deployer.run(name, "--restart")
    journal.unlink()


def test_removed_boxes_are_as_they_were(story: Story, history: History) -> None:
    told = story.deployer.run(*story.names, "--remove")
    history.note(f"removed in {[told.host(name)['took_s'] for name in story.names]} s")
    for name, box in story.fleet.boxes.items():
        assert told.host(name)["done"]
        assert files_of(box.outside("/")) - story.files_before[name] == set()
        assert box.outside("/etc/passwd").read_text() == story.users_before[name]
        processes = box.run("ps", "-eo", "args")
        assert "ddqueue" not in processes.replace("ps -eo args", "")
        assert WORKER not in box.run("systemctl", "list-units", "--all", "--plain", "--no-legend")
        assert not box.outside(layout.LOCK).exists()
    with open_ledger(story.fleet.servers.database_url) as ledger:
        wait_until(lambda: all(ledger.sessions(box.address) == 0 for box in story.fleet.boxes.values()), "still there")
    again = story.deployer.run(*story.names, "--remove")
    for name in story.names:
        assert set(again.outcomes(name).values()) == {"passed", "unchanged"}, "nothing was left to remove"


def test_a_control_machine_gets_dispatcher_and_flower(story: Story, history: History) -> None:
    """A machine that the inventory does not know, after the one before has taken everything off it."""
    name, _ = story.names
    box = story.fleet.boxes[name]
    place = f"root@{box.address}"
    refused = story.deployer.deploy(story.first, place, code=1)
    assert f"ddqueue deploy {place} --service dispatcher --service flower" in refused.host(place)["problem"]
    login = {"DDQUEUE_FLOWER_USER": "me", "DDQUEUE_FLOWER_PASSWORD": "it's $ecret"}
    services = ("--service", "dispatcher", "--service", "flower")
    told = story.deployer.deploy(story.first, place, *services, variables=login)
    history.note(f"deployed in {told.host(place)['took_s']} s")
    for service in ("dispatcher", "flower"):
        state = box.run("systemctl", "show", "--value", "--property=ActiveState,User", f"ddqueue-{service}")
        assert "active" in state
    (health,) = [step for step in told.host(place)["steps"] if step["name"] == "health"]
    assert "ddqueue-dispatcher runs as pid" in health["text"], "it also told the database so, while another one leads"
    ask = "import sys, urllib.request as u; print(u.urlopen('http://127.0.0.1:5555/healthcheck').read().decode())"
    wait_until(
        lambda: "OK" in box.run("sh", "-c", 'python3 -c "$1" 2>/dev/null || :', "sh", ask), "Flower is not there"
    )
    assert "ddqueue" not in box.outside("/etc/passwd").read_text(), "their accounts exist only while they run"
    story.deployer.run(place, "--remove", variables=login)
    assert files_of(box.outside("/")) - story.files_before[name] == set()
    assert not box.outside("/var/lib/private/ddqueue-flower").exists()


def _locked(story: Story, name: str) -> bool:
    return "Alice" in story.fleet.boxes[name].run("sh", "-c", f"cat {layout.LOCK} 2>/dev/null || :")
