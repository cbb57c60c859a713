"""A live look at the queue: a table that is painted over on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import IO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text
from sqlalchemy import Engine

from ddqueue.cli.live_frame import Frame, HostNow, frame, lines
from ddqueue.errors import NotReachable
from ddqueue.report.grid import visible
from ddqueue.storage.live import PostgresLive
from ddqueue.storage.pooled_reads import PooledReads
from ddqueue.storage.reading import PostgresReader
from ddqueue.storage.references import SweepReference

_EVERY_S = 1.0
_SAY_AGAIN_S = 30.0
_NO_WORKER_S = 20.0


def watch(sql_engine: Engine, out: IO[str], sweep: SweepReference | None, away_s: float) -> None:
    """Show what happens until `sweep` has ended; for ever without one.

    Raises:
        NotReachable: Postgres has not answered for `away_s` seconds.
    """
    read = _reader(sql_engine, sweep)
    show = _on_terminal if out.isatty() else _in_lines
    show(_Patient(read, away_s).look, out, sweep is not None)


def _reader(sql_engine: Engine, sweep: SweepReference | None) -> Callable[[], Frame]:
    reader, live = PostgresReader(PooledReads(sql_engine)), PostgresLive(sql_engine)
    only = None if sweep is None else str(sweep)
    on_hosts = None if sweep is None else {job["host"] for job in reader.jobs(sweep.sweep_id)}

    def read() -> Frame:
        # Hosts last: a job that has just ended is then idle rather than unknown.
        now_live, sweeps = live.hosts(), reader.sweeps()
        return frame(
            reader.hosts(),
            sweeps,
            reader.host_failures(),
            now_live,
            only,
            None if on_hosts is None else sorted(on_hosts),
        )

    return read


Look = tuple[Frame | None, str]
"""The newest frame, if there is one, and what stands above it."""


class _Patient:
    """Looks, and outlives a database that is away for a while: then the last frame stays, and the head says so."""

    def __init__(self, read: Callable[[], Frame], away_s: float) -> None:
        self._read = read
        self._away_s = away_s
        self._began_s = self._reached_s = time.monotonic()
        self._last: Frame | None = None

    def look(self) -> Look:
        """Raises NotReachable once the database has been away for too long."""
        now_s = time.monotonic()
        try:
            self._last = self._read()
        except NotReachable as away:
            if now_s - self._reached_s > self._away_s:
                raise
            return self._last, f"{away}; trying again"
        self._reached_s = now_s
        return self._last, _hint(self._last, now_s - self._began_s)


def _hint(now: Frame, watched_s: float) -> str:
    """What is missing when a queue stands still from its beginning."""
    still = bool(now.sweeps) and not any(sweep.running or sweep.done for sweep in now.sweeps)
    if not still or watched_s < _NO_WORKER_S or any(host.state != "idle" for host in now.hosts):
        return ""
    return "no job has started yet: do `ddqueue dispatcher` and a `ddqueue worker --host NAME` run?"


def _over(now: Frame | None, one_sweep: bool) -> bool:
    return one_sweep and now is not None and all(sweep.ended for sweep in now.sweeps)


def _on_terminal(look: Callable[[], Look], out: IO[str], one_sweep: bool) -> None:
    console = Console(file=out, highlight=False, markup=False)
    # Painted by us and not by a thread: a frame is whole, or not there.
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            now, head = look()
            live.update(drawn(now, head), refresh=True)
            if _over(now, one_sweep):
                return
            time.sleep(_EVERY_S)


def _in_lines(look: Callable[[], Look], out: IO[str], one_sweep: bool) -> None:
    """A line when what it says of states and phases is new, and all of them now and then."""
    said: dict[str, str] = {}
    said_all_s = time.monotonic()
    while True:
        now, head = look()
        again = time.monotonic() - said_all_s > _SAY_AGAIN_S
        texts = {"": head} if head else {}
        texts |= {line.partition(":")[0]: line for line in ([] if now is None else lines(now))}
        for key, line in texts.items():
            if again or said.get(key) != _gist(line):
                out.write(f"{datetime.now():%H:%M:%S} {visible(line)}\n")
        out.flush()
        said = {key: _gist(line) for key, line in texts.items()}
        said_all_s = time.monotonic() if again else said_all_s
        if _over(now, one_sweep):
            return
        time.sleep(_EVERY_S)


def _gist(line: str) -> str:
    """A line without its numbers, which change all the time."""
    return "".join(character for character in line if not character.isdigit())


def drawn(now: Frame | None, head: str = "") -> RenderableType:
    """The frame as tables; every text is shown as it is, control characters as escapes."""
    parts: list[RenderableType] = [Text(visible(head), style="yellow")] if head else []
    if now is None:
        return Group(*parts)
    hosts = _table("host", "now")
    for host in now.hosts:
        hosts.add_row(_cell(host.host), Text("\n").join(map(_cell, _said(host))))
    parts.append(hosts)
    if now.sweeps:
        sweeps = _table("sweep", "done", "running", "failed", "left")
        for sweep in now.sweeps:
            counts = (f"{sweep.done}/{sweep.jobs}", str(sweep.running), str(sweep.failed))
            sweeps.add_row(*map(_cell, (sweep.sweep, *counts, sweep.left)))
        parts += [Text(""), sweeps]
    if now.failures:
        parts += [Text(""), Text("Failures, newest first", style="bold")]
        parts += [Text(visible(line), overflow="ellipsis", no_wrap=True) for line in now.failures]
    parts += [Text(note, style="dim") for note in now.notes]
    return Group(*parts)


def _said(host: HostNow) -> list[str]:
    """What a host does, line by line: no terminal is wide enough for so many columns."""
    progress = "" if host.progress == "-" else f", {host.progress}"
    said = [f"{host.state}{progress}, {host.waiting} waiting"]
    if host.job != "-":
        said += [f"job {host.job}", host.doing]
    if host.so_far:
        said.append(f"tok/s so far (repeats): {host.so_far}")
    return said


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head)
    return table


def _cell(text: str) -> Text:
    return Text(visible(text))
