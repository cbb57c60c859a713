"""The first process of a namespace box: `python -m multihost.namespace_init`. It starts services, one JSON object a
line of standard input, starts each again when it ends, and reaps orphans.

The end of standard input is the power button: services get SIGTERM, and ten seconds. As the first process of its
namespace it takes everything else along when it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_RESTART_S = 1.0
_GRACE_S = 10.0


class RunningService:
    """One service, and the process that runs it now."""

    def __init__(self, service: dict[str, Any]) -> None:
        """`service` has `argv`, `environment` and `log`, the path to which its output is appended."""
        self._service = service
        self._process: subprocess.Popen[bytes] | None = None
        self._start_at_s = 0.0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def care(self) -> None:
        """Start it when it is due."""
        if self._process is not None and self._process.poll() is not None:
            self._process = None
            self._start_at_s = time.monotonic() + _RESTART_S
        if self._process is None and time.monotonic() >= self._start_at_s:
            with Path(self._service["log"]).open("ab") as log:
                self._process = subprocess.Popen(
                    self._service["argv"],
                    env={"PATH": os.defpath, **self._service["environment"]},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    def terminate(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None


def main() -> int:
    services: list[RunningService] = []
    unread = b""
    while True:
        ready, _, _ = select.select([0], [], [], 0.2)
        if ready:
            data = os.read(0, 65536)
            if not data:
                break
            *lines, unread = (unread + data).split(b"\n")
            services += [RunningService(json.loads(line)) for line in lines]
        for service in services:
            service.care()
        _reap_orphans({service.pid for service in services})
    for service in services:
        service.terminate()
    deadline = time.monotonic() + _GRACE_S
    while not all(service.has_ended() for service in services) and time.monotonic() < deadline:
        time.sleep(0.05)
    return 0


def _reap_orphans(services: set[int | None]) -> None:
    """Collect what services left behind; a service's own process is left to its Popen, which needs the exit code."""
    for word in Path("/proc/self/task/1/children").read_text().split():
        if int(word) not in services:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(int(word), os.WNOHANG)


if __name__ == "__main__":
    # ^C is for the harness, which then ends the box in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(main())
