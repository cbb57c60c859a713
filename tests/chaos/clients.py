"""The people: they play their script through the command line, and write down what they were told."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg

from .history import Command
from .script import CancelJob, CancelSweep, Hold, Pause, Release, Resume, Retry, Step, Submit, Timed
from .world import World

REPEATS = 3
_NOT_REACHABLE = 3
_TRY_AGAIN_S = 1.0
_GIVE_UP_S = 300.0

_SWEEP = """\
name: {name}
model: kimi-k2.6
engine: sim
hosts: [{hosts}]
parallel: [TP2]
cells:
{cells}
measure:
  points:
    - {{concurrency: 1, context: 60, output: 16}}
  repeats: {{min: {repeats}, max: {repeats}}}
"""


class Clients:
    """One thread that plays a script. `commands` is what was asked and told so far."""

    def __init__(self, world: World, steps: Sequence[Timed]) -> None:
        self._world = world
        self._steps = steps
        self._references: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._play, name="clients")
        self.commands: list[Command] = []

    def start(self) -> None:
        self._thread.start()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> None:
        self._thread.join()

    def give_up(self) -> None:
        """Play no further."""
        self._stop.set()

    def command(self, name: str, target: str, *options: str) -> Command:
        """`ddqueue NAME TARGET OPTIONS...`, once; recorded whatever comes of it."""
        began_at = time.time()
        try:
            done = self._world.run("-m", "ddqueue", name, target, *options)
            code, output, error = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired:
            code, output, error = None, "", ""
        command = Command(name, target, began_at, time.time(), code, output, error, options)
        self.commands.append(command)
        return command

    def insist(self, name: str, target: str, *options: str) -> Command:
        """The same, again and again while Postgres cannot be reached, as a person would."""
        deadline = time.monotonic() + _GIVE_UP_S
        while True:
            command = self.command(name, target, *options)
            if command.exit_code != _NOT_REACHABLE or time.monotonic() > deadline or self._stop.is_set():
                return command
            self._stop.wait(_TRY_AGAIN_S)

    def _play(self) -> None:
        for timed in self._steps:
            if self._stop.wait(timed.pause_s):
                return
            self._take(timed.step)

    def _take(self, step: Step) -> None:
        match step:
            case Submit():
                self._submit(step)
            case CancelJob(sweep, place):
                job_id = self._job(sweep, place)
                if job_id is not None:
                    self.insist("cancel", str(job_id))
            case CancelSweep(sweep):
                self._to_sweep("cancel", sweep)
            case Retry(sweep):
                self._to_sweep("retry", sweep)
            case Pause(sweep):
                self._to_sweep("pause", sweep)
            case Resume(sweep):
                self._to_sweep("resume", sweep)
            case Hold(host, now):
                self.insist("hold", host, "--reason", "chaos", *(["--now"] if now else []))
            case Release(host):
                self.insist("release", host)

    def _submit(self, step: Submit) -> None:
        cells = "\n".join(f"  - {{block_size: 8, budget: {budget}, topk: 4, window: 2048}}" for budget in step.budgets)
        path: Path = self._world.folder / f"{step.name}.yaml"
        path.write_text(_SWEEP.format(name=step.name, hosts=", ".join(step.hosts), cells=cells, repeats=REPEATS))
        after = self._references.get(step.after or "")
        options = ["--json", "--priority", str(step.priority), *(["--after", after] if after else [])]
        command = self.insist("submit", str(path), *options)
        if command.exit_code == 0:
            told = json.loads(command.output)
            self._references[step.name] = f"{told['sweep']}@{told['revision']}"

    def _to_sweep(self, name: str, sweep: str) -> None:
        if sweep in self._references:
            self.insist(name, self._references[sweep])

    def _job(self, sweep: str, place: int) -> int | None:
        """Looked up in the tables, as a person reads a job's number in `status`; None while they cannot be read."""
        name, _, revision = self._references.get(sweep, "").partition("@")
        with contextlib.suppress(psycopg.Error), self._world.postgres.connection() as connection:
            rows = connection.execute(
                "SELECT j.id FROM jobs AS j JOIN sweeps AS s ON s.id = j.sweep_id"
                " WHERE s.name = %s AND s.revision::text = %s ORDER BY j.position",
                (name, revision),
            ).fetchall()
            return int(str(rows[place % len(rows)][0])) if rows else None
        return None
