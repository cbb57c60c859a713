"""Deliberately broken builds: each takes one promise out of the attempts' code, to see that the checker notices.

Python imports this file at its start when its folder is on PYTHONPATH, which only the chaos suite does. CHAOS_BROKEN
says what to break. A break that does not apply any more fails at once, rather than let a test pass for nothing.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def without_fence() -> None:
    """Writes between claim and finish do not look at the fence, nor at whether the job runs."""
    from ddqueue.storage import statements

    read = statements.sql
    condition = "fence = :fence AND state = 'running'"
    if condition not in read("hold_fence"):
        raise RuntimeError("sql/hold_fence.sql does not check the fence as expected: mend this broken build")

    def unfenced(name: str, folder: str = "sql") -> str:
        text = read(name, folder)
        return text.replace(condition, "CAST(:fence AS bigint) IS NOT NULL") if name == "hold_fence" else text

    statements.sql = unfenced


def without_inheritance() -> None:
    """A server does not get its host's lock."""
    start: Callable[..., None] = subprocess.Popen.__init__

    def alone(self: subprocess.Popen[Any], *arguments: Any, **options: Any) -> None:
        options.pop("pass_fds", None)
        start(self, *arguments, **options)

    subprocess.Popen.__init__ = alone  # type: ignore[method-assign]


def without_ownership() -> None:
    """Every attempt owns its host, whoever else does."""
    from ddqueue.gpu import ownership

    @contextlib.contextmanager
    def own(self: Any, host: str) -> Iterator[Any]:
        path = Path(self._folder) / f"{host}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield ownership.HeldLock(fd, path)
        finally:
            os.close(fd)

    ownership.KernelOwnership.own = own  # type: ignore[method-assign]


_BREAKS = {"fence": without_fence, "inherit": without_inheritance, "ownership": without_ownership}
_CONCERNED = {"workers.attempt", "chaos.probe"}

if "CHAOS_BROKEN" in os.environ and _CONCERNED.intersection(sys.orig_argv):
    try:
        _BREAKS[os.environ["CHAOS_BROKEN"]]()
    except Exception:
        # Python would say so and go on with what is whole, which then looks as if the checker saw nothing.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(70)
