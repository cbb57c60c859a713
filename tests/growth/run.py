"""One run: jobs in rounds on one simulated box, then nothing to do, then the end; a look at each of these moments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from installation import Installation, sweep_text

from ddqueue.domain.states import JobState
from ddqueue.files.examples import example
from ddqueue.local.servers import ephemeral
from ddqueue.storage.migrate import upgrade

from .look import DISPATCHER, WORKER, Look, Place

HOST = "sim-rtx6000"

_COMMAND = "ddqueue.sim.server]"
_FAST = 'ddqueue.sim.server, --sim-startup-s, "0.1", --sim-speed, "20"]'
_POINT = "{concurrency: 1, context: 60, output: 8}"
_BUDGETS = range(4, 64)

_LOOK_EVERY_S = 1.0
_STEADY_LOOKS = 3
_SETTLE_S = 60.0
"""After that whatever still moves is looked at as it is."""
_STEADY = 0.01
_JOB_S = 60.0
"""Far beyond what a job takes: a limit for a run that would hang."""


@dataclass(frozen=True)
class Options:
    """The first look that others are compared with comes after `warm_up` jobs, and one more after each `every`; while
    the worker idles there is one each `idle_look_s`."""

    jobs: int = 200
    idle_s: float = 900.0
    warm_up: int = 10
    every: int = 20
    idle_look_s: float = 180.0


@dataclass(frozen=True)
class Finished:
    """`before` anything ran, `start` before the first job, `looks` after the warm-up and later, and `ended` once every
    service was told to end."""

    before: Look
    start: Look
    looks: tuple[Look, ...]
    ended: Look


def run(options: Options, folder: Path, own_shared_memory: bool, tell: Callable[[str], None]) -> Finished:
    """Run it in `folder`, which the servers' account may enter. From the main thread.

    Raises:
        AssertionError: a job hung, or did not succeed at once.
    """
    temporary = folder / "tmp"
    temporary.mkdir()
    with ephemeral(folder / "servers") as servers:
        upgrade(servers.database_url)
        inventory = example("inventory-sim.yaml").replace(_COMMAND, _FAST)
        installation = Installation(folder / "home", servers.database_url, servers.redis_url, inventory)
        installation.set("TMPDIR", str(temporary))
        place = Place(installation, servers, temporary, HOST, own_shared_memory)
        began_s = time.monotonic()
        before = place.look("nothing runs", 0, began_s, {})
        try:
            dispatcher, worker = installation.start_all(HOST)
            services = {WORKER: worker.pid, DISPATCHER: dispatcher.pid}

            def settled(label: str, jobs: int) -> Look:
                look = _settled(lambda: place.look(label, jobs, began_s, services))
                tell(f"{look.at_s:5.0f} s: {label}: {look.sizes.get(WORKER)}")
                return look

            start = settled("no job yet", 0)
            looks = [
                settled(f"{jobs} jobs" if number else f"{jobs} jobs: warm", jobs)
                for number, jobs in enumerate(_rounds(installation, options))
            ]
            idle_began_s = time.monotonic()
            for idle_s in _pauses(options):
                time.sleep(max(0.0, idle_began_s + idle_s - time.monotonic()))
                looks.append(settled(f"idle for {idle_s:.0f} s", options.jobs))
        finally:
            installation.stop()
        ended = place.look("ended", options.jobs, began_s, {})
    return Finished(before, start, tuple(looks), ended)


def _rounds(installation: Installation, options: Options) -> Iterator[int]:
    """How many jobs have been run, after each round: a sweep of so many cells."""
    done = 0
    while done < options.jobs:
        count = min(options.every if done else options.warm_up, options.jobs - done, len(_BUDGETS))
        cells = [f"{{block_size: 8, budget: {budget}, topk: 4, window: 2048}}" for budget in _BUDGETS[:count]]
        installation.patience_s = count * _JOB_S
        sweep = installation.submit(sweep_text(f"growth-{done}", (HOST,), cells, (_POINT,)))
        jobs = installation.wait_final(sweep)
        states = {job["state"] for job in jobs}
        assert states == {JobState.SUCCEEDED}, f"{states}\n{installation.logs()}"
        done += count
        yield done


def _pauses(options: Options) -> Iterator[float]:
    """Seconds since the last job at which to look."""
    at_s = options.idle_look_s
    while at_s < options.idle_s:
        yield at_s
        at_s += options.idle_look_s
    if options.idle_s:
        yield options.idle_s


def _settled(look: Callable[[], Look]) -> Look:
    """The last of some looks that found the same: a spare still loads, and Postgres still ends a session."""
    deadline = time.monotonic() + _SETTLE_S
    same, last = 1, look()
    while same < _STEADY_LOOKS and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
        former, last = last, look()
        same = same + 1 if _alike(former, last) else 1
    return last


def _alike(former: Look, last: Look) -> bool:
    return (
        former.counts == last.counts
        and former.sizes.keys() == last.sizes.keys()
        and all(
            abs(last.sizes[name].rss_kib - size.rss_kib) <= _STEADY * size.rss_kib
            and (last.sizes[name].descriptors, last.sizes[name].threads) == (size.descriptors, size.threads)
            for name, size in former.sizes.items()
        )
    )
