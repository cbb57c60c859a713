"""The attempt process: `python -m workers.attempt WORKER`.

It loads what an attempt needs and waits for its order, so that a worker can keep one that is ready. Until then it holds
no lock and no connection, touches no GPU and has read neither inventory nor settings.

Standard input is a pipe whose other end only the worker has: the order is its one line, and its end of file says that
the worker is gone. Standard output carries progress, one JSON object a line, and the report as the last. Nothing here
waits for the reader.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import select
import signal
import sys
import threading
from typing import Any

from ddqueue.bootstrap import attempt, patience
from ddqueue.domain.queueing import Runner
from ddqueue.errors import DdqueueError, SchemaRefused
from ddqueue.processes import become_subreaper, start_ticks
from ddqueue.services.stopping import StopReason, StopSignal
from workers.orders import Order

NEEDED = (
    "ddqueue.domain.preflight.build",
    "ddqueue.engine.capabilities",
    "ddqueue.engine.command",
    "ddqueue.engine.launcher",
    "ddqueue.engine.limits",
    "ddqueue.files.inventory_file",
    "ddqueue.files.model_config",
    "ddqueue.gpu.cleanroom",
    "ddqueue.gpu.host_commands",
    "ddqueue.gpu.loan_file",
    "ddqueue.gpu.nvml",
    "ddqueue.gpu.nvml_telemetry",
    "ddqueue.gpu.ownership",
    "ddqueue.gpu.provenance",
    "ddqueue.gpu.shared_memory",
    "ddqueue.gpu.telemetry",
    "ddqueue.gpu.visible",
    "ddqueue.measure.chat",
    "ddqueue.measure.process",
    "ddqueue.services.execute",
    "ddqueue.storage.journalled",
    "ddqueue.services.preflight",
    "ddqueue.services.serve_and_measure",
    "ddqueue.sim.gpus",
    "ddqueue.sim.telemetry",
    "ddqueue.storage.attempts",
    "ddqueue.storage.programs",
    "sqlalchemy.dialects.postgresql.psycopg",
    "psycopg",
)
"""What `bootstrap.attempt` imports where it composes, and the driver that SQLAlchemy imports when it connects. Loading
them is most of a fresh process's time to its claim, and the GPUs would stand idle for it."""


class PipeProgress:
    """Writes to standard output, which is non-blocking: a full pipe loses progress, never time."""

    def __init__(self) -> None:
        os.set_blocking(1, False)

    def tell(self, phase: str, text: str) -> None:
        self.send({"phase": phase, "text": text})

    def send(self, message: dict[str, Any]) -> None:
        try:
            os.write(1, json.dumps(message).encode() + b"\n")
        except OSError:
            return


def main(arguments: list[str]) -> int:
    """Exit code 0 whenever a report was written, whatever became of the job, and when no order came."""
    (worker,) = arguments
    told_to_stop = _signals()
    load()
    order = _order(told_to_stop)
    if order is None:
        return 0
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format=f"%(asctime)s {order.host} attempt[%(process)d] %(levelname)s %(message)s",
    )
    become_subreaper()
    stop = StopSignal(patience().attempt_limit_s)
    threading.Thread(target=_watch, args=(told_to_stop, stop), name="watch", daemon=True).start()
    progress = PipeProgress()
    runner = Runner(os.getpid(), start_ticks(os.getpid()) or 0, worker)
    try:
        with attempt(order.host, progress, stop) as execute:
            report = execute.run(order.host, order.job_id, runner)
    except SchemaRefused as error:
        progress.send({"report": {"worked": False, "text": str(error), "refused": True}})
        return error.exit_code
    except DdqueueError as error:
        progress.send({"report": {"worked": False, "text": f"{type(error).__name__}: {error}"}})
        return error.exit_code
    progress.send({"report": {"worked": report.worked, "text": report.text}})
    return 0


def load() -> None:
    """Import what an attempt will need."""
    for name in NEEDED:
        importlib.import_module(name)


def _signals() -> int:
    """Turn SIGTERM and SIGINT into a byte on the returned descriptor, which is all that a handler may safely do: it may
    run while the main thread holds any lock."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.write(writing, b"."))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return reading


def _order(told_to_stop: int) -> Order | None:
    """Wait for the order, for hours if need be; None when the worker is gone or wants this process to end."""
    line = b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([0, told_to_stop], [], [])
        # Not through sys.stdin: its buffer would hide from the watch what else came.
        if told_to_stop in ready or not (data := os.read(0, 4096)):
            return None
        line += data
    return Order.from_line(line)


def _watch(told_to_stop: int, stop: StopSignal) -> None:
    """Turn a signal and the worker's end into a wish to stop."""
    while True:
        ready, _, _ = select.select([0, told_to_stop], [], [])
        if told_to_stop in ready or not os.read(0, 4096):
            stop.ask(StopReason.WORKER)
            return


if __name__ == "__main__":
    code = main(sys.argv[1:])
    logging.shutdown()
    # Taking the interpreter down takes a while, and the worker cannot take the next job before this process has ended.
    os._exit(code)
