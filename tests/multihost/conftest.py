"""One fleet for all tests of this folder; each test tells its story at its end, passed or not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from . import leftovers, requirements
from .fleet import DISPATCHER, WORKER, Fleet, fleet
from .history import History
from .watch import ServerWatch

EVIDENCE_VARIABLE = "DDQUEUE_BOXES_EVIDENCE"

Say = Callable[[str], None]


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Say:
    """Lines for the person who watches, whatever pytest captures."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(text: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", flush=True)

    return say


@pytest.fixture(scope="session")
def possible() -> None:
    reason = requirements.why_not_at_all()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def hosts(possible: None, say: Say) -> Iterator[Fleet]:
    with fleet(say) as made:
        say(f"GPU boxes: {made.kind}")
        yield made
        keep_evidence(made)
    assert leftovers.found() == []


def keep_evidence(made: Fleet) -> None:
    """Every service's log, where a folder for it is named."""
    if EVIDENCE_VARIABLE not in os.environ:
        return
    folder = Path(os.environ[EVIDENCE_VARIABLE])
    folder.mkdir(parents=True, exist_ok=True)
    for box, service in ((made.desk, DISPATCHER), *((box, WORKER) for box in made.boxes.values())):
        (folder / f"{box.name}-{service}.log").write_text(box.log(service))


@pytest.fixture
def history(request: pytest.FixtureRequest, say: Say) -> Iterator[History]:
    story = History(request.node.name)
    yield story
    say(story.text())


@pytest.fixture
def watch(hosts: Fleet, history: History) -> Iterator[ServerWatch]:
    with ServerWatch({name: hosts.lock_of(name) for name in hosts.boxes}, history) as watching:
        yield watching
