"""`ddqueue dispatcher`."""

from __future__ import annotations

import logging
import platform
import signal
import sys
import threading
import time
from typing import Any

import click

from ddqueue.errors import DdqueueError

SILENT_LIMIT_S = 30.0
"""A dispatcher gives a sign every few seconds."""

_LINE = "%(asctime)s dispatcher[%(process)d] %(levelname)s %(message)s"


class _Ended:
    """A flag for a signal handler, which may interrupt whoever holds a lock: so it takes none."""

    def __init__(self) -> None:
        self.value = False

    def set(self, *_: Any) -> None:
        self.value = True


@click.command()
@click.option("--check", is_flag=True, help="Start nothing; say whether the one on this machine is alive.")
def dispatcher(check: bool) -> None:
    """Wake every idle host that has a job, and tell webhooks what became of their sweeps.

    Several may run; one of them leads. With --check exit code 1 says that the database has not heard of this machine's
    dispatcher, leading or standing by, for half a minute.
    """
    from ddqueue import bootstrap

    if check:
        _check()
        return
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


def _check() -> None:
    from ddqueue import bootstrap
    from ddqueue.storage.reading import PostgresReader

    with bootstrap.reads("ddqueue dispatcher --check") as reads:
        seen = {row["name"]: row["seen_s"] for row in PostgresReader(reads).dispatchers()}
    silent_s = seen.get(platform.node())
    if silent_s is None:
        raise DdqueueError("no dispatcher has worked on this machine yet")
    if silent_s > SILENT_LIMIT_S:
        raise DdqueueError(f"the dispatcher on this machine was last heard of {silent_s:.0f} s ago")
    click.echo(f"the dispatcher on this machine was heard of {silent_s:.0f} s ago")
