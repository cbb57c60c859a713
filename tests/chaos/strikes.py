"""One function a kind of fault: it hits, and proves that it has hit something."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from kombu.exceptions import OperationalError

from ddqueue.queue.app import TASK, make_app, queue_of

from . import procfs
from .faults import Planned
from .servers import HARNESS, Daemon
from .world import Service, World

_SEEN_WITHIN_S = 2.0
"""How long the effect of a signal may take to show, on a busy machine."""

_COPIES = 3


@dataclass(frozen=True)
class Hit:
    """What proves it, and what mends it; None when it needs no mending, or ddqueue must mend it itself."""

    proof: str
    mend: Callable[[], None] | None = None


class NoTarget(Exception):
    """There is nothing to hit just now."""


class Skipped(Exception):
    """This machine cannot do it; the text says why."""


def kill_worker(world: World, host: str, planned: Planned) -> Hit:
    return _kill(_service(world.worker(host)), "worker")


def stop_worker(world: World, host: str, planned: Planned) -> Hit:
    return _stop(_service(world.worker(host)), "worker")


def restart_worker(world: World, host: str, planned: Planned) -> Hit:
    """While it runs a job; that it ends is proven by its being started again, or the calm never comes."""
    attempt = _attempt(world, host)
    worker = _service(world.worker(host))
    procfs.send(worker.pid, signal.SIGTERM)
    return Hit(f"worker {worker.pid} told to end during attempt process {attempt.pid}")


def kill_attempt(world: World, host: str, planned: Planned) -> Hit:
    return _kill(_attempt(world, host, planned.while_serving), "attempt process")


def stop_attempt(world: World, host: str, planned: Planned) -> Hit:
    return _stop(_attempt(world, host, planned.while_serving), "attempt process")


def kill_dispatcher(world: World, host: str, planned: Planned) -> Hit:
    return _kill(_service(world.dispatcher), "dispatcher")


def stop_dispatcher(world: World, host: str, planned: Planned) -> Hit:
    return _stop(_service(world.dispatcher), "dispatcher")


def kill_server(world: World, host: str, planned: Planned) -> Hit:
    return _kill(_server(world, host, leads=True), "server")


def stop_server(world: World, host: str, planned: Planned) -> Hit:
    return _stop(_server(world, host, leads=True), "server")


def kill_scheduler(world: World, host: str, planned: Planned) -> Hit:
    return _kill(_server(world, host, leads=False), "scheduler")


def stop_scheduler(world: World, host: str, planned: Planned) -> Hit:
    return _stop(_server(world, host, leads=False), "scheduler")


def kill_redis(world: World, host: str, planned: Planned) -> Hit:
    pid = _daemon(world.redis)
    world.redis.end(signal.SIGKILL)

    def mend() -> None:
        if world.redis.pid is None:
            world.redis.start()

    return Hit(f"Redis {pid} killed", mend)


def wipe_redis(world: World, host: str, planned: Planned) -> Hit:
    _daemon(world.redis)
    with world.redis.client() as client:
        keys = client.dbsize()
        client.flushall()
    if not keys:
        raise NoTarget("Redis was empty")
    return Hit(f"{keys} keys wiped")


def stop_redis(world: World, host: str, planned: Planned) -> Hit:
    return _stop_daemon(world.redis, "Redis")


def cut_redis(world: World, host: str, planned: Planned) -> Hit:
    _daemon(world.redis)
    with world.redis.client() as client:
        cut = sum(int(str(client.client_kill_filter(_type=kind))) for kind in ("normal", "pubsub"))
    if not cut:
        raise NoTarget("nobody was connected to Redis")
    return Hit(f"{cut} connections to Redis cut")


def restart_postgres(world: World, host: str, planned: Planned) -> Hit:
    before = _daemon(world.postgres)
    connected = _connected(world)
    world.postgres.end(signal.SIGQUIT)
    world.postgres.start()
    return Hit(f"Postgres {before} shut down at once with {connected} connections; now {world.postgres.pid}")


def stop_postgres(world: World, host: str, planned: Planned) -> Hit:
    return _stop_daemon(world.postgres, "Postgres")


def cut_postgres(world: World, host: str, planned: Planned) -> Hit:
    _daemon(world.postgres)
    with world.postgres.connection() as connection:
        cut = connection.execute(
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND application_name <> %s",
            (HARNESS,),
        ).fetchone()
    if cut is None or not cut[0]:
        raise NoTarget("nobody was connected to Postgres")
    return Hit(f"{cut[0]} connections to Postgres cut")


def send_duplicates(world: World, host: str, planned: Planned) -> Hit:
    """Several more wake-ups for the job that runs, or waits first, on the host."""
    with world.postgres.connection() as connection:
        job = connection.execute(
            "SELECT id, state FROM jobs WHERE host = %s AND state IN ('running', 'queued')"
            " ORDER BY state = 'running' DESC, id LIMIT 1",
            (host,),
        ).fetchone()
    if job is None:
        raise NoTarget(f"{host} has no job")
    _daemon(world.redis)
    app = make_app(world.redis.url)
    try:
        with app.connection_for_write() as connection:
            for _ in range(_COPIES):
                app.send_task(TASK, args=(job[0], host), queue=queue_of(host), connection=connection, retry=False)
    except OperationalError as error:
        raise NoTarget(f"Redis took no wake-up: {error}") from error
    return Hit(f"{_COPIES} more wake-ups for job {job[0]}, {job[1]}")


def fill_disk(world: World, host: str, planned: Planned) -> Hit:
    if world.disk.missing:
        raise Skipped(world.disk.missing)
    server = _server(world, host, leads=True)
    written_mib = world.disk.fill()
    free = world.disk.free_bytes()
    if free:
        world.disk.empty()
        raise NoTarget(f"{free} bytes stayed free")
    return Hit(f"no byte left, after {written_mib} MiB, under the log of server {server.pid}", world.disk.empty)


def jump_clock(world: World, host: str, planned: Planned) -> Hit:
    if world.clock.missing:
        raise Skipped(world.clock.missing)
    attempt = _attempt(world, host)
    world.clock.jump(planned.jump_s)
    seen_s = world.clock.seen_offset_s()

    def mend() -> None:
        world.clock.jump(0.0)

    return Hit(f"a clock {seen_s:+.0f} s off, during attempt process {attempt.pid}", mend)


def go_on(process: procfs.Process) -> None:
    """SIGCONT, if it is still there."""
    if procfs.still(process) is not None:
        procfs.send(process.pid, signal.SIGCONT)


def _service(service: Service) -> procfs.Process:
    process = procfs.read(service.pid) if service.pid is not None else None
    if process is None or not process.runs:
        raise NoTarget(f"the {service.name} does not run")
    return process


def _attempt(world: World, host: str, while_serving: bool = False) -> procfs.Process:
    process = procfs.owner(world.lock(host))
    if process is None:
        raise NoTarget(f"no attempt owns {host}")
    if while_serving:
        _server(world, host, leads=True)
    return process


def _server(world: World, host: str, leads: bool) -> procfs.Process:
    found = [process for process in procfs.servers(world.lock(host)) if process.leads is leads]
    if not found:
        raise NoTarget(f"no server runs on {host}")
    return found[0]


def _daemon(daemon: Daemon) -> int:
    pid = daemon.pid
    process = None if pid is None else procfs.read(pid)
    if process is None:
        raise NoTarget("it is down already")
    if process.state == "T":
        raise NoTarget("it is stopped already")
    return process.pid


def _kill(process: procfs.Process, what: str) -> Hit:
    if not procfs.send(process.pid, signal.SIGKILL):
        raise NoTarget(f"{what} {process.pid} had just ended")
    if not _wait(lambda: procfs.still(process) is None):
        raise NoTarget(f"{what} {process.pid} does not die")
    return Hit(f"{what} {process.pid} killed")


def _stop(process: procfs.Process, what: str) -> Hit:
    procfs.send(process.pid, signal.SIGSTOP)
    if not _wait(lambda: (now := procfs.still(process)) is None or now.state == "T"):
        raise NoTarget(f"{what} {process.pid} does not stop")
    if procfs.still(process) is None:
        raise NoTarget(f"{what} {process.pid} had just ended")
    return Hit(f"{what} {process.pid} stopped", lambda: go_on(process))


def _stop_daemon(daemon: Daemon, what: str) -> Hit:
    _daemon(daemon)
    stopped = daemon.stop()
    return Hit(f"{len(stopped)} processes of {what} stopped", daemon.go_on)


def _connected(world: World) -> int:
    with world.postgres.connection() as connection:
        row = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
        found = row.fetchone()
    return 0 if found is None else int(str(found[0])) - 1


def _wait(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _SEEN_WITHIN_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
