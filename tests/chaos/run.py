"""One run: clients, nemesis and watcher over one world, then calm, and the history of it all."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from json import loads
from pathlib import Path

from ddqueue.sim.gpus import SimulatedGpus

from . import procfs, tables
from .caretaker import Caretaker
from .clients import REPEATS, Clients
from .faults import FaultKind, schedule
from .history import History, LeftOver, Outcome, Watched, load_watched
from .nemesis import Nemesis
from .script import script
from .world import World, built

_TICK_S = 0.05
_TELL_EVERY_S = 10.0
_GPU_RELEASE_S = 10.0
"""What simulated GPUs may take to show that their last holder is gone; theirs is a fraction of a second."""


@dataclass(frozen=True)
class Options:
    """What a run is made of. `strikes` bounds the number of faults that hit, None for as many as there is time for
    while jobs are open; `chaos_limit_s` bounds that time, `calm_limit_s` what comes after it."""

    jobs: int
    seed: int
    hosts: int = 2
    servers: str = "embedded"
    kinds: tuple[FaultKind, ...] = tuple(FaultKind)
    strikes: int | None = None
    mean_pause_s: float = 2.0
    broken: str | None = None
    chaos_limit_s: float = 900.0
    calm_limit_s: float = 300.0


@dataclass(frozen=True)
class Finished:
    """The history of a run, and what is told of it besides: the reasons why hosts were shut, the exit codes of workers
    and dispatcher by name, and the files that are left of the attempts' journals."""

    history: History
    journals: Sequence[str]
    quarantines: Sequence[str]
    exit_codes: Mapping[str, Sequence[int]]


def run(options: Options, folder: Path, tell: Callable[[str], None]) -> Finished:
    """Make a world in `folder`, break it for as long as jobs are left, let it calm down, and return what was seen.

    From the main thread; `tell` gets a line now and then.
    """
    with built(folder, options.hosts, options.servers, options.broken) as world:
        tell(f"servers: {world.versions}; folder: {folder}")
        for missing in filter(None, (world.disk.missing, world.clock.missing)):
            tell(f"skipped: {missing}")
        output = folder / "watched.json"
        watch = ["-m", "chaos.watcher", str(output), str(world.home / "journal"), *map(world.lock, world.hosts)]
        watcher = world.spawn(watch, "watcher.log")
        clients = Clients(world, script(options.seed, options.jobs, world.hosts))
        caretaker = Caretaker(world, clients)
        nemesis = Nemesis(world, schedule(options.seed, options.hosts, options.kinds, options.mean_pause_s))
        world.start_services()
        clients.start()
        caretaker.start()
        try:
            _chaos(world, clients, caretaker, nemesis, options, tell)
            tell("calm")
            nemesis.heal()
            _calm(world, clients, caretaker, options)
        finally:
            nemesis.heal()
            clients.give_up()
            clients.join()
            caretaker.stop()
        caretaker.probe()
        left = _end(world, watcher.pid)
        watcher.send_signal(signal.SIGTERM)
        watcher.wait()
        watched: Watched = load_watched(loads(output.read_text()))
        history = History(
            repeats=REPEATS,
            commands=tuple(clients.commands),
            strikes=tuple(nemesis.strikes),
            watched=watched,
            stale_writes=tuple(caretaker.stale_writes),
            tables=tables.read(world.postgres.url),
            left=left,
        )
        exit_codes = {name: tuple(service.exit_codes) for name, service in world.services.items()}
        journals = sorted(str(path.relative_to(world.home)) for path in world.home.glob("journal/*/*"))
        return Finished(history, journals, tuple(caretaker.quarantines), exit_codes)


def _chaos(
    world: World,
    clients: Clients,
    caretaker: Caretaker,
    nemesis: Nemesis,
    options: Options,
    tell: Callable[[str], None],
) -> None:
    """Until the clients have played their script and no job is open, or there was enough of it."""
    began_s = told_s = time.monotonic()
    while time.monotonic() < began_s + options.chaos_limit_s:
        if clients.done and caretaker.open_jobs == 0:
            return
        hits = sum(strike.outcome is Outcome.HIT for strike in nemesis.strikes)
        if options.strikes is not None and hits >= options.strikes:
            return
        nemesis.tick()
        world.keep_up()
        if time.monotonic() - told_s > _TELL_EVERY_S:
            told_s = time.monotonic()
            tell(f"{told_s - began_s:4.0f} s: {len(nemesis.strikes)} faults, {caretaker.open_jobs} jobs open")
        time.sleep(_TICK_S)


def _calm(world: World, clients: Clients, caretaker: Caretaker, options: Options) -> None:
    """Everything runs again; whatever is open must end by itself."""
    deadline = time.monotonic() + options.calm_limit_s
    while time.monotonic() < deadline:
        world.keep_up()
        running = all(service.pid is not None for service in world.services.values())
        if clients.done and running and caretaker.open_jobs == 0 and not _servers(world):
            caretaker.look()
            if caretaker.open_jobs == 0:
                return
        time.sleep(_TICK_S)


def _end(world: World, watcher_pid: int) -> LeftOver:
    """What is left before and after the services are told to end."""
    servers = _servers(world)
    gpus = _gpus_in_use(world)
    unwilling = world.stop_services()
    strays = [_described(process) for process in world.ours() if process.pid != watcher_pid]
    return LeftOver(tuple(servers), tuple(gpus), tuple(strays), tuple(unwilling))


def _servers(world: World) -> list[str]:
    return [_described(process) for host in world.hosts for process in procfs.servers(world.lock(host))]


def _gpus_in_use(world: World) -> list[str]:
    deadline = time.monotonic() + _GPU_RELEASE_S
    while True:
        used = [
            f"{host}: GPU {reading.index} has {reading.memory_used_mib} MiB in use by {list(reading.pids)}"
            for host in world.hosts
            if (folder := world.home / "sim" / host).exists()
            for reading in SimulatedGpus(folder).read()
            if reading.memory_used_mib or reading.pids
        ]
        if not used or time.monotonic() > deadline:
            return used
        time.sleep(_TICK_S)


def _described(process: procfs.Process) -> str:
    return f"pid {process.pid}, {process.state}: {' '.join(procfs.arguments(process.pid))[:120]}"
