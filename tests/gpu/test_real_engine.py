"""What a launch of a real SGLang does when the configuration or the port is wrong, below the queue."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from installation import Installation
from real import HOST, Machine

from ddqueue import bootstrap
from ddqueue.domain.configuration import Cell, Parallelism, Speculation
from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.sweep import Point
from ddqueue.engine import launcher
from ddqueue.engine.launcher import SglangEngine
from ddqueue.engine.limits import StartLimits
from ddqueue.files.inventory_file import inventory_from_text
from ddqueue.gpu.ownership import LOCK_VARIABLE
from ddqueue.ports import LaunchRequest, RunningServer

pytestmark = pytest.mark.gpu


def go_on() -> None:
    """Nothing asks the start to stop."""


def say_nothing(phase: str, text: str) -> None:
    """Nobody watches."""


class Launches:
    """Requests for the box, and servers of its engine outside of the queue."""

    def __init__(self, box: Installation, inventory: str) -> None:
        self._folder = box.home / "engine-tests"
        self._folder.mkdir(exist_ok=True)
        self._lock = os.open(self._folder / "test.lock", os.O_RDWR | os.O_CREAT)
        self._engine = SglangEngine(LOCK_VARIABLE, StartLimits(), lambda _: {}, lambda host: box.home / "caches" / host)
        known = inventory_from_text(inventory, "inventory.yaml")
        self.request = LaunchRequest(
            host=known.host(HOST),
            model=known.model("trained-pair"),
            profile=known.engine("sglang-dflash"),
            cell=Cell("trained-pair", "sglang-dflash", Speculation(8), {"mem-fraction-static": 0.2}),
            parallelism=Parallelism(),
            tag="ddqueue-test-1",
            log_path=str(self._folder / "1.log"),
            lock_fd=self._lock,
            lock_path=str(self._folder / "test.lock"),
            random_seed=1,
        )

    @contextmanager
    def started(self, request: LaunchRequest) -> Iterator[RunningServer]:
        server = self._engine.launch(request)
        try:
            yield server
        finally:
            server.stop()

    def failure(self, request: LaunchRequest) -> AttemptFailure:
        with self.started(request) as server, pytest.raises(AttemptFailure) as raised:
            server.wait_ready(say_nothing, go_on)
        return raised.value


@pytest.fixture(scope="module")
def launches(box: Installation, machine: Machine, mixtures: Path) -> Launches:
    return Launches(box, machine.inventory(mixtures))


def test_pp_2_is_unsupported_before_a_launch(
    launches: Launches, box: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDQUEUE_HOME", str(box.home))
    monkeypatch.setenv("DDQUEUE_INVENTORY", str(box.home / "inventory.yaml"))
    checks = bootstrap.preflight(HOST, go_on, lambda _: None, on_host=True)
    with pytest.raises(AttemptFailure, match="pp") as refused:
        checks.check(replace(launches.request, parallelism=Parallelism(pp=2)), (Point(1, 64, 64),))
    assert refused.value.failure is Failure.UNSUPPORTED
    examined = checks.examine(launches.request, (Point(1, 64, 64),))
    assert examined.errors == ()
    assert examined.build is not None
    assert examined.build.versions["version"] is not None


def test_pp_2_is_unsupported_by_the_log_when_forced(launches: Launches) -> None:
    found = launches.failure(replace(launches.request, parallelism=Parallelism(pp=2)))
    assert found.failure is Failure.UNSUPPORTED
    assert "only supports pp_size == 1" in found.evidence


def test_a_stale_server_on_the_port_is_never_taken_for_ours(
    launches: Launches, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of another lock, as one that somebody started by hand: what carries this lock's mark is a family, and ends as one.
    theirs = replace(launches.request, lock_path=launches.request.lock_path + ".theirs")
    with launches.started(theirs) as stale:
        stale.wait_ready(say_nothing, go_on)
        port = int(stale.url.rsplit(":", 1)[1])
        monkeypatch.setattr(launcher, "free_port", lambda: port)
        ours = replace(launches.request, tag="ddqueue-test-2", log_path=launches.request.log_path + ".2")
        found = launches.failure(ours)
        assert found.failure is Failure.PORT_BUSY
        assert f"pid {stale.pid}" in found.evidence
        stale.check_alive()
        assert stale.confirm().difference == {}
