"""One driver for each kind of sandbox on this machine, and the proof that a test leaves nothing of it behind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from sandbox_world import ORDINARY_UID, Driver, children_of, mounts_of


@pytest.fixture(
    scope="module",
    params=[(user, walls) for walls in ("namespaces", "bubblewrap") for user in ("root", "ordinary")],
    ids="-".join,
)
def sandbox_driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    user, walls = request.param
    if user == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    if walls == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap (bwrap) is not installed")
    uid = 0 if user == "root" else os.geteuid() or ORDINARY_UID
    started = Driver(uid, walls)
    try:
        first = started.run("print('in')")
        if first["fault"] is not None:
            pytest.skip(f"no such sandbox on this machine: {first['fault']}")
        assert first["walls"] == walls
        yield started
    finally:
        started.close()


@pytest.fixture
def driver(sandbox_driver: Driver) -> Iterator[Driver]:
    """The driver; after the test it has no child, no descriptor, no mount and no file more than before."""
    descriptors, mounts = sandbox_driver.descriptors(), mounts_of(sandbox_driver)
    yield sandbox_driver
    assert children_of(sandbox_driver.process.pid) == []
    assert sandbox_driver.descriptors() == descriptors
    assert mounts_of(sandbox_driver) == mounts
    assert list(sandbox_driver.scratch.iterdir()) == []
