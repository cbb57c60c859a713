"""Nothing of a fleet stays on the machine, however the run that made it ends.

First in this folder by its name, because there is one fleet at a time and the other tests share theirs to the end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from . import leftovers, requirements
from .hold import UP

pytestmark = pytest.mark.multihost

_LIMIT_S = 120.0


@contextmanager
def held_fleet(kind: str = "") -> Iterator[subprocess.Popen[str]]:
    """A fleet in a process of its own, once all of it is up; booted where that is possible, unless another kind is
    named."""
    process = subprocess.Popen(
        [sys.executable, "-m", "multihost.hold"],
        cwd=Path(__file__).parent.parent,
        env=os.environ | ({requirements.KIND_VARIABLE: kind} if kind else {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        said = []
        for line in process.stdout:
            said.append(line)
            if line.strip() == UP:
                break
        else:
            pytest.fail(f"no fleet came up:\n{''.join(said)}")
        yield process
    finally:
        process.kill()
        process.communicate()
        leftovers.remove()


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, ""), (signal.SIGTERM, requirements.NAMESPACE)])
def test_an_interrupted_run_leaves_nothing(possible: None, number: signal.Signals, kind: str) -> None:
    with held_fleet(kind) as process:
        assert leftovers.found() != [], "it is seen while it is there"
        process.send_signal(number)
        assert process.wait(_LIMIT_S) == 0
        assert leftovers.found() == []


def test_the_next_run_clears_what_a_killed_one_left(possible: None) -> None:
    with held_fleet() as process:
        process.kill()
        process.wait(_LIMIT_S)
        assert leftovers.found() != []
        leftovers.remove()
        assert leftovers.found() == []
