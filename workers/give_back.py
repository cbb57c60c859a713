"""One try to give a borrowed host back, in a process of its own: `python -m workers.give_back HOST`.

A person, or a unit's `ExecStopPost`, may run it too: it does nothing when the host is not borrowed. Exit codes are
those of `services.give_back.GaveBack`.
"""

from __future__ import annotations

import logging
import signal
import sys

from ddqueue.bootstrap import give_back
from ddqueue.processes import become_subreaper


class LogProgress:
    """Nobody watches: what is told goes to the log."""

    def tell(self, phase: str, text: str) -> None:
        logging.info("%s: %s", phase, text)


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    (host,) = arguments
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format=f"%(asctime)s {host} give-back[%(process)d] %(levelname)s %(message)s",
    )
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # Whoever stops the worker may signal everything it started, and this is what must not be stopped. A handler,
        # since an ignored signal would stay ignored in what the command starts.
        signal.signal(number, lambda *_: None)
    become_subreaper()
    with give_back(host, LogProgress()) as giving:
        return int(giving.run())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
