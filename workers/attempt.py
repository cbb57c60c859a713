"""The attempt process: `python -m workers.attempt HOST JOB_ID WORKER`.

Standard input is a pipe whose other end only the worker has: its end of file says that the worker is gone. Standard
output carries progress, one JSON object a line, and the report as the last. Nothing here waits for the reader.
"""

from __future__ import annotations

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
from ddqueue.errors import DdqueueError
from ddqueue.processes import become_subreaper, start_ticks
from ddqueue.services.stopping import StopReason, StopSignal


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
    """Exit code 0 whenever a report was written, whatever became of the job."""
    host, job_id, worker = arguments[0], int(arguments[1]), arguments[2]
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format=f"%(asctime)s {host} attempt[%(process)d] %(levelname)s %(message)s",
    )
    become_subreaper()
    stop = StopSignal(patience().attempt_limit_s)
    _watch(stop)
    progress = PipeProgress()
    runner = Runner(os.getpid(), start_ticks(os.getpid()) or 0, worker)
    try:
        with attempt(host, progress, stop) as execute:
            report = execute.run(host, job_id, runner)
    except DdqueueError as error:
        progress.send({"report": {"worked": False, "text": f"{type(error).__name__}: {error}"}})
        return error.exit_code
    progress.send({"report": {"worked": report.worked, "text": report.text}})
    return 0


def _watch(stop: StopSignal) -> None:
    """Turn SIGTERM, SIGINT and the worker's end into a wish to stop.

    The signal handler only writes a byte: it may run while the main thread holds any lock.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.write(writing, b"."))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def watch() -> None:
        while True:
            ready, _, _ = select.select([0, reading], [], [])
            if reading in ready or not os.read(0, 4096):
                stop.ask(StopReason.WORKER)
                return

    threading.Thread(target=watch, name="watch", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
