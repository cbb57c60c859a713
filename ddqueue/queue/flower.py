"""Flower, set up for jobs of minutes to hours: locked, read-only, persistent, with rows that a person can read.

It runs inside this process, so that neither the broker's URL nor the password is ever an argument, a variable of a
child or a file.
"""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from celery import Celery

from ddqueue.errors import UsageError

COLUMNS = ("name", "args", "state", "result", "received", "runtime", "uuid", "worker", "started")
"""Sweep and model; job, host and configuration; the phase; how far it is; when it began, by which Flower orders; how
long it took: a window of 1280 pixels holds these. Then, to be scrolled to, the link to the rest, and what repeats them.
Fewer columns than a window is wide are no better: Flower's heads then stand beside their columns."""

RUNTIME_BUCKETS_S = (60.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 10800.0, 21600.0)
"""Of the metric `flower_task_runtime_seconds`. A whole attempt takes from minutes to the six hours it may take at most;
Flower's own buckets end at ten seconds."""

SAVE_EVERY_MS = 10_000
"""What a killed Flower forgets at most."""

MOST_TASKS = 10_000

_REASON = re.compile(r"^NotDone\((['\"])(.*)\1,?\)$", re.DOTALL)


@dataclass(frozen=True)
class FlowerSettings:
    """Where Flower listens, who may look, and where it keeps what it has seen. Port 0 = any free one."""

    user: str
    password: str
    folder: Path
    address: str = "127.0.0.1"
    port: int = 5555


def run_flower(app: Celery, wanted: FlowerSettings, started: Callable[[int], None]) -> None:
    """Serve until SIGTERM or SIGINT; `started` is called with the port once it listens. Call it from the main thread.

    Raises:
        UsageError: the address cannot be listened on, or the folder cannot be written to.
    """
    from flower.options import options
    from flower.urls import settings

    from ddqueue.queue.flower_gate import Gate, GuardedFlower

    logging.getLogger("flower").setLevel(logging.WARNING)
    _private(wanted.folder)
    for name, value in flower_options(wanted).items():
        setattr(options, name, value)
    flower = GuardedFlower(Gate(wanted.user, wanted.password), capp=app, options=options, **settings)
    try:
        port = flower.start_http_server()
    except OSError as error:
        where = f"{wanted.address}:{wanted.port}"
        raise UsageError(f"cannot listen on {where}: {error.strerror}; choose with --address and --port") from error
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: flower.io_loop.add_callback_from_signal(flower.stop))
    started(port)
    flower.start()


def flower_options(wanted: FlowerSettings) -> dict[str, Any]:
    """Flower's options by name. The gate repeats the password and the refusals: one lock need not trust the other."""
    return {
        "address": wanted.address,
        "port": wanted.port,
        "basic_auth": [f"{wanted.user}:{wanted.password}"],
        "read_only": True,
        "persistent": True,
        "db": str(wanted.folder / "events"),
        "state_save_interval": SAVE_EVERY_MS,
        "max_tasks": MOST_TASKS,
        "natural_time": True,
        "tasks_columns": ",".join(COLUMNS),
        "task_runtime_metric_buckets": list(RUNTIME_BUCKETS_S),
        "format_task": readable,
    }


def readable(task: Any) -> Any:
    """The task with its outcome where its progress stood: the reason of a failure instead of an exception's text."""
    if task.exception:
        match = _REASON.match(task.exception)
        task.result = match[2] if match else task.exception
    elif task.result == "'succeeded'":
        task.result = "succeeded"
    return task


def _private(folder: Path) -> None:
    """Flower unpickles what lies there, so that nobody else may write to it."""
    os.umask(0o077)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise UsageError(f"cannot use {folder}: {error.strerror}; set DDQUEUE_HOME to a folder of yours") from error
