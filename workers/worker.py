"""The worker's life: a Celery worker on one host's queue, which touches no GPU and holds no lock."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from celery import Celery, signals

from ddqueue import bootstrap
from ddqueue.errors import SchemaRefused
from ddqueue.queue.app import queue_of
from ddqueue.queue.events import EventSender
from workers.attempts import AttemptProcesses
from workers.borrowed import BorrowedBox
from workers.supervision import look_after, notify
from workers.tasks import register
from workers.terms import CurrentTerms

log = logging.getLogger(__name__)

_LAST_WORDS_S = 10


def run_worker(app: Celery, host: str, attempt_limit_s: float) -> int:
    """Serve the host's queue until told to stop; returns the exit code."""
    name = f"gpu@{host}"
    attempts = AttemptProcesses(name, attempt_limit_s)
    box = BorrowedBox(
        host,
        attempts,
        CurrentTerms(host),
        bootstrap.loan_record(host),
        bootstrap.local_time,
        bootstrap.patience().past_hours_s,
    )
    outdated = threading.Event()

    def give_up(why: str) -> None:
        # A worker that stayed would start an attempt, to be refused, every few seconds. As if a person had stopped it.
        log.error("%s stops: %s", name, why)
        outdated.set()
        os.kill(os.getpid(), signal.SIGTERM)

    def exit_code() -> int:
        return box.exit_code or (SchemaRefused.exit_code if outdated.is_set() else 0)

    register(app, box, EventSender(app, name), give_up)

    def shutting_down(**_: Any) -> None:
        # Called inside a signal handler: no logging, no locks.
        notify("STOPPING=1")
        box.stop()
        attempts.stop_all()
        threading.Thread(target=_leave_at_last, args=(attempts, box, exit_code), name="leave", daemon=True).start()

    signals.setup_logging.connect(_log_to_stderr, weak=False)
    signals.worker_shutting_down.connect(shutting_down, weak=False)
    signals.worker_ready.connect(_ignore_hangup, weak=False)
    look_after(app)
    worker = app.Worker(
        hostname=name,
        queues=[queue_of(host)],
        concurrency=1,
        pool="threads",
        without_gossip=True,
        without_mingle=True,
        quiet=True,
        redirect_stdouts=False,
    )
    box.start()
    # Not when the broker is there: a box that boots while the control host is away is as it should be.
    notify("READY=1")
    try:
        worker.start()
    finally:
        box.stop()
        box.wait()
    return worker.exitcode or exit_code()


def _leave_at_last(attempts: AttemptProcesses, box: BorrowedBox, exit_code: Callable[[], int]) -> None:
    """A broker that hangs must not hold the exit: leave some seconds after the last attempt ended, and a borrowed box
    was given back."""
    idle_s = 0
    while idle_s < _LAST_WORDS_S:
        time.sleep(1)
        idle_s = 0 if attempts.busy or box.busy else idle_s + 1
    os._exit(exit_code())


def _log_to_stderr(**_: Any) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s worker[%(process)d] %(levelname)s %(name)s %(message)s"))
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(logging.INFO)
    logging.getLogger("kombu").setLevel(logging.WARNING)


def _ignore_hangup(**_: Any) -> None:
    """Celery would start the worker anew on SIGHUP, outside of whatever supervises it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
