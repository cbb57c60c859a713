"""`ddqueue deploy` and its tasks for fab, before and after they reach a box that is not there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from installation import Installation

from ddqueue.files.examples import example

CHECKOUT = Path(__file__).resolve().parents[2]
NOWHERE = "127.0.0.1:1"
"""Nobody listens there."""


@pytest.fixture
def installation(tmp_path: Path, database_url: str, redis_url: str) -> Installation:
    text = example("inventory-sim.yaml").replace("simulated: pcie}", f"simulated: pcie, address: {NOWHERE}}}")
    return Installation(tmp_path, database_url, redis_url, text)


def test_a_box_that_does_not_answer_fails_and_says_so(installation: Installation) -> None:
    done = installation.run("deploy", "sim-rtx6000", "--check", "--json", code=1)
    (host,) = json.loads(done.stdout)["hosts"]
    assert f"@{NOWHERE} cannot be reached: " in host["problem"]
    assert [(step["name"], step["outcome"]) for step in host["steps"]] == [("connect", "failed")]
    installation.stop()


def test_mistakes_are_found_before_any_box_is_reached(installation: Installation, tmp_path: Path) -> None:
    for words, said in (
        (["two words"], "is no ssh address"),
        (["sim-rtx6000", "--fill"], "--wheelhouse"),
        (["sim-rtx6000", "--wheel", str(tmp_path / "other.whl")], "is no wheel of ddqueue"),
        (["sim-rtx6000", "sim-b300", "--logs", "--follow"], "name one HOST"),
    ):
        done = installation.run("deploy", *words, code=2)
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    installation.stop()


def test_fab_has_a_task_for_each_thing_and_passes_its_code_on(installation: Installation) -> None:
    fab = [sys.executable, "-m", "fabric"]
    listed = subprocess.run([*fab, "--list"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    tasks = {line.split()[0] for line in listed.splitlines() if line.startswith("  ")}
    assert tasks == {"check", "deploy", "logs", "remove", "restart", "rollback", "status"}
    done = subprocess.run(
        [*fab, "status", "sim-rtx6000", "--options", "--json"],
        cwd=CHECKOUT, env=installation.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["hosts"][0]["name"] == "sim-rtx6000"
    installation.stop()
