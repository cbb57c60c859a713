"""The dispatcher and the workers as children of one command, for a demo on one machine."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ddqueue.errors import DdqueueError
from ddqueue.processes import die_with_parent

_STOP_S = 30.0


@contextlib.contextmanager
def side_processes(commands: Mapping[str, Sequence[str]], logs: Path) -> Iterator[Callable[[], None]]:
    """Run `ddqueue ARGUMENTS...` for each name, its output in `logs`; yields a check that raises when one has ended.

    They are told to stop when this process ends, however it ends. Call it from the main thread.
    """
    logs.mkdir(parents=True, exist_ok=True)
    running: dict[str, subprocess.Popen[bytes]] = {}

    def check() -> None:
        for name, process in running.items():
            if process.poll() is not None:
                raise DdqueueError(f"the {name} ended with {process.returncode}; see {logs / name}.log")

    try:
        for name, arguments in commands.items():
            with (logs / f"{name}.log").open("ab") as log:
                running[name] = subprocess.Popen(
                    [sys.executable, "-m", "ddqueue", *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
        yield check
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)
            if process.poll() is None:
                process.kill()
                process.wait()
