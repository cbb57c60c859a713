"""Waiting for a sweep, with one line that says where it is."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

from ddqueue.cli.output import duration
from ddqueue.domain.states import FINAL, JobState
from ddqueue.storage.reading import PostgresReader

_POLL_S = 0.5
_SAY_AGAIN_S = 15.0


def wait_for(
    reader: PostgresReader, sweep_id: int, check: Callable[[], None] = lambda: None, out: Any = sys.stderr
) -> list[dict[str, Any]]:
    """Return the sweep's jobs once each is in a final state; `check` is called at every poll and may raise.

    On a terminal one line is written over; elsewhere a line is added when a job ends, and now and then.
    """
    started_s = time.monotonic()
    terminal = out.isatty()
    last_done, last_said_s = -1, 0.0
    while True:
        check()
        jobs = reader.jobs(sweep_id)
        done = sum(JobState(job["state"]) in FINAL for job in jobs)
        now_s = time.monotonic()
        if terminal or done != last_done or now_s - last_said_s > _SAY_AGAIN_S:
            line = _line(jobs, reader.hosts(), now_s - started_s)
            out.write(f"\r\x1b[2K{line[: shutil.get_terminal_size().columns - 1]}" if terminal else f"{line}\n")
            out.flush()
            last_done, last_said_s = done, now_s
        if done == len(jobs):
            if terminal:
                out.write("\n")
            return jobs
        time.sleep(_POLL_S)


def _line(jobs: list[dict[str, Any]], hosts: list[dict[str, Any]], elapsed_s: float) -> str:
    parts = [duration(elapsed_s)]
    doing = {host["name"]: host for host in hosts}
    for name in dict.fromkeys(job["host"] for job in jobs):
        mine = [job for job in jobs if job["host"] == name]
        done = sum(JobState(job["state"]) in FINAL for job in mine)
        host = doing[name]
        now = f": {host['label']}, {host['activity'] or 'starting'}" if host["job_id"] is not None else ""
        if host["quarantined_at"] is not None:
            now = f": quarantined, {host['quarantine_class']}: {host['quarantine_reason']}"
        parts.append(f"{name} {done}/{len(mine)}{now}")
    return " | ".join(parts)
