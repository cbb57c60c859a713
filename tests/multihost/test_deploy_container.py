"""The same commands on a box without systemd, as rented ones are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from installation import sweep_text

from ddqueue.files.examples import example
from deploy import layout, supervised
from deploy.services import Service
from deploy.wheel import Wheel

from . import base_system, leftovers, network
from .container_box import ContainerBox
from .deploying import Deployer, files_of, make_wheel
from .fleet import Fleet
from .history import History

pytestmark = pytest.mark.multihost

NAME = "rented"
_HOST = f"  {NAME}: {{gpus: 8, gpu: simulated H200, simulated: nvlink, address: root@{network.CONTAINER_ADDRESS}}}"


@pytest.fixture(scope="module")
def rented(hosts: Fleet) -> Iterator[ContainerBox]:
    if not hosts.kind.startswith("booted"):
        pytest.skip(hosts.kind)
    box = ContainerBox(NAME, network.CONTAINER_ADDRESS, leftovers.STATE / NAME, base_system.tree(), hosts.keys, ())
    try:
        box.boot()
        yield box
    finally:
        box.remove()


@pytest.fixture(scope="module")
def wheel(rented: ContainerBox) -> Wheel:
    folder = leftovers.STATE / "for-container"
    folder.mkdir()
    return make_wheel(folder, "0.9.1")


@pytest.fixture
def deployer(hosts: Fleet, tmp_path: Path) -> Deployer:
    deployer = Deployer(hosts, tmp_path)
    deployer.inventory.write_text(example("inventory-sim.yaml").replace("hosts:\n", f"hosts:\n{_HOST}\n", 1))
    (hosts.control.home / "inventory.yaml").write_text(deployer.inventory.read_text())
    return deployer


def test_a_container_is_deployed_used_and_left_as_it_was(
    hosts: Fleet, rented: ContainerBox, wheel: Wheel, deployer: Deployer, history: History
) -> None:
    before = files_of(rented.outside("/"))
    told = deployer.deploy(wheel, NAME)
    history.note(f"deployed in {told.host(NAME)['took_s']} s")
    again = deployer.deploy(wheel, NAME)
    assert set(again.outcomes(NAME).values()) == {"passed", "unchanged"}
    history.note(f"again in {again.host(NAME)['took_s']} s")

    sweep = hosts.control.submit(sweep_text("rented", hosts=[NAME]))
    (job,) = hosts.control.wait_final(sweep)
    assert job["state"] == "succeeded"
    history.note("a job ran")

    (state,) = [step for step in deployer.run(NAME, "--status").host(NAME)["steps"] if step["name"] == "worker"]
    assert state["outcome"] == "passed"
    assert "by supervisord" in state["text"]
    pid = _pid(rented)
    rented.run("kill", "-KILL", pid)
    deployer.run(NAME, "--restart")
    assert _pid(rented) != pid
    assert f"gpu@{NAME} ready." in deployer.logs(NAME, "--lines", "5")
    limits = rented.run("cat", f"/proc/{_pid(rented)}/limits")
    assert "Max core file size        0 " in limits

    told = deployer.run(NAME, "--remove")
    history.note(f"removed in {told.host(NAME)['took_s']} s")
    assert files_of(rented.outside("/")) - before == set()
    assert "ddqueue" not in rented.run("ps", "-eo", "args").replace("ps -eo args", "")
    assert not rented.outside(supervised.log_path(Service.WORKER)).exists()
    assert not rented.outside(layout.LOCK).exists()


def _pid(box: ContainerBox) -> str:
    return box.run("pgrep", "--full", "--oldest", "ddqueue worker --host").strip()
