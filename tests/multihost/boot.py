"""The power supply of a booted box: `python -m multihost.boot BOX COMMAND...` runs systemd-nspawn in the box's groups.

A process of its own, so that the box is shut down in good order when the test run dies, even by SIGKILL.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys

from ddqueue.processes import die_with_parent

from . import cgroups

_REBOOT = 133
"""How nspawn ends when the box asks for a reboot and no machine manager is there to do it."""


def main(box: str, *command: str) -> int:
    running: list[subprocess.Popen[bytes]] = []

    def switch_off(*_: object) -> None:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, switch_off)
    die_with_parent(signal.SIGTERM)
    cgroups.join(cgroups.make(box))
    code = _REBOOT
    while code == _REBOOT:
        running[:] = [subprocess.Popen(command, stdin=subprocess.DEVNULL)]
        code = running[0].wait()
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
