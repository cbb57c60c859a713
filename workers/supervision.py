"""What a worker tells systemd, when that has started it: that it is up, and that it is alive."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any

from celery import bootsteps

_NOTIFY_SOCKET = "NOTIFY_SOCKET"
_WATCHDOG_US = "WATCHDOG_USEC"
_SIGNS_A_LIMIT = 4
"""How often a sign is given within the time after which systemd would end the worker."""


def notify(message: str) -> None:
    """Send `READY=1`, `WATCHDOG=1` or the like (sd_notify(3)). Nothing where systemd did not ask for it."""
    address = os.environ.get(_NOTIFY_SOCKET)
    if not address:
        return
    # A name in the kernel's abstract space is written with an @.
    place = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.settimeout(1.0)
            channel.sendto(message.encode(), place)
    except OSError:
        return


def watchdog_limit_s() -> float | None:
    """After how long without a sign systemd ends this process; None = never."""
    text = os.environ.get(_WATCHDOG_US, "")
    return int(text) / 1e6 if text.isdigit() and int(text) > 0 else None


class Watchdog:
    """Says that the worker is alive while its main loop turns, and while it rightly has none.

    The loop turns only on a broker that is there. Without one, and while the worker ends, the process alone answers:
    to be restarted would not bring the broker back, and would stop the attempt that runs.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._every_s = limit_s / _SIGNS_A_LIMIT
        self._loop_turned_s: float | None = None

    @property
    def every_s(self) -> float:
        """How often `turned` should be called."""
        return self._every_s

    def turned(self) -> None:
        """The main loop is at work."""
        self._loop_turned_s = time.monotonic()

    def rests(self) -> None:
        """There is no main loop now."""
        self._loop_turned_s = None

    def is_alive(self) -> bool:
        """Whether a sign may be given."""
        turned_s = self._loop_turned_s
        return turned_s is None or time.monotonic() - turned_s < self._limit_s / 2

    def start(self) -> None:
        """Give signs from now on."""
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def _run(self) -> None:
        while True:
            if self.is_alive():
                notify("WATCHDOG=1")
            time.sleep(self._every_s)


class LoopTurns(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery has no types
    """Calls the watchdog from the consumer's own loop, in the main thread."""

    requires = ("celery.worker.consumer.tasks:Tasks",)
    watchdog: Watchdog | None = None

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._timer: Any = None

    def start(self, parent: Any) -> None:
        if self.watchdog is not None:
            self.watchdog.turned()
            self._timer = parent.timer.call_repeatedly(self.watchdog.every_s, self.watchdog.turned)

    def stop(self, parent: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.watchdog is not None:
            self.watchdog.rests()


def look_after(app: Any) -> None:
    """Let the application's worker give signs of life, if systemd wants them."""
    limit_s = watchdog_limit_s()
    if limit_s is None:
        return
    watchdog = Watchdog(limit_s)
    # Celery makes the step itself, from its class.
    app.steps["consumer"].add(type("LoopTurns", (LoopTurns,), {"watchdog": watchdog}))
    watchdog.start()
