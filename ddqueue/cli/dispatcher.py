"""`ddqueue dispatcher`."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from typing import Any

import click

_LINE = "%(asctime)s dispatcher[%(process)d] %(levelname)s %(message)s"


class _Ended:
    """A flag for a signal handler, which may interrupt whoever holds a lock: so it takes none."""

    def __init__(self) -> None:
        self.value = False

    def set(self, *_: Any) -> None:
        self.value = True


@click.command()
def dispatcher() -> None:
    """Wake every idle host that has a job, and tell webhooks what became of their sweeps.

    Several may run; one of them leads.
    """
    from ddqueue import bootstrap

    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=_LINE)
    ended = _Ended()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ended.set)
    bootstrap.check_schema()

    def pause(seconds: float) -> bool:
        time.sleep(seconds)
        return ended.value

    with bootstrap.webhooks(pause) as webhooks, bootstrap.dispatch(lambda: ended.value) as dispatch:
        threading.Thread(target=webhooks.run, name="webhooks", daemon=True).start()
        dispatch.run()
