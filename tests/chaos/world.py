"""A whole ddqueue on servers of its own: hosts, dispatcher and workers, kept up as systemd would keep them up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ddqueue.processes import die_with_parent

from . import procfs
from .clock import Clock
from .disk import Disk
from .servers import Postgres, Redis, embedded_programs, system_programs

TESTS = Path(__file__).parents[1]
BROKEN = Path(__file__).parent / "broken"

RESTART_AFTER_S = 0.5
COMMAND_LIMIT_S = 120.0
"""A client's command that takes longer hangs, whatever was broken meanwhile."""

PATIENCE = {
    # Shorter than what the nemesis stops processes for, so that leases do expire.
    "DDQUEUE_LEASE_TTL_S": "3",
    "DDQUEUE_WAKE_AGAIN_AFTER_S": "2",
    "DDQUEUE_ATTEMPT_LIMIT_S": "120",
    "DDQUEUE_SERVER_START_S": "60",
    "DDQUEUE_SERVER_SILENT_S": "30",
    "DDQUEUE_GPU_IDLE_WAIT_S": "20",
}

_INVENTORY = """
hosts:
{hosts}
models:
  kimi-k2.6:
    path: /simulated/kimi-k2.6
    context_length: 262144
    drafter: {{path: /simulated/kimi-k2.6-dflash, block_size: 8}}
engines:
  sim:
    command: ["{{python}}", -m, ddqueue.sim.server, --sim-startup-s, "0.3"]
    simulated: true
    settings:
      speculation: {{flags: [--speculative-algorithm, DDTREE, --speculative-draft-model-path, "{{drafter}}"]}}
      block_size: {{flags: [--speculative-num-draft-tokens, "{{value}}"]}}
      budget: {{flags: [--speculative-ddtree-budget, "{{value}}"]}}
      topk: {{env: {{SGLANG_DDTREE_MAX_TOPK: "{{value}}"}}}}
      window: {{flags: [--speculative-draft-window-size, "{{value}}"]}}
"""


@dataclass
class Service:
    """A dispatcher or a worker: started, and started again when it has ended."""

    name: str
    argv: Sequence[str]
    process: subprocess.Popen[bytes] | None = None
    ended_s: float = 0.0
    exit_codes: list[int] = field(default_factory=list)
    """How it ended, each time that it did so before the end of the run."""

    @property
    def pid(self) -> int | None:
        """None while it does not run."""
        return self.process.pid if self.process is not None and self.process.poll() is None else None


@dataclass
class World:
    """`hosts` are the names of simulated boxes; `broken` names a build with a promise taken out, None the real one."""

    folder: Path
    hosts: Sequence[str]
    postgres: Postgres
    redis: Redis
    disk: Disk
    clock: Clock
    versions: str
    broken: str | None = None
    services: dict[str, Service] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def environment(self) -> dict[str, str]:
        """What every command of ddqueue sees."""
        paths = [str(TESTS)] if self.broken is None else [str(BROKEN), str(TESTS)]
        paths += [path for path in (os.environ.get("PYTHONPATH"),) if path]
        broken = {} if self.broken is None else {"CHAOS_BROKEN": self.broken}
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("DDQUEUE_")},
            **PATIENCE,
            **broken,
            "DDQUEUE_HOME": str(self.home),
            "DDQUEUE_DATABASE_URL": self.postgres.url,
            "DDQUEUE_REDIS_URL": self.redis.url,
            "DDQUEUE_INVENTORY": str(self.home / "inventory.yaml"),
            "PYTHONPATH": os.pathsep.join(paths),
        }

    def lock(self, host: str) -> str:
        """The path of the host's lock file, which also marks its servers."""
        return str(self.home / "locks" / f"{host}.lock")

    def worker(self, host: str) -> Service:
        return self.services[f"worker {host}"]

    @property
    def dispatcher(self) -> Service:
        return self.services["dispatcher"]

    def start_services(self) -> None:
        """A dispatcher, and a worker for each host. From the main thread, as is `keep_up`."""
        self.services["dispatcher"] = Service("dispatcher", ("-m", "ddqueue", "dispatcher"))
        for host in self.hosts:
            self.services[f"worker {host}"] = Service(f"worker {host}", ("-m", "ddqueue", "worker", "--host", host))
        self.keep_up()

    def keep_up(self) -> None:
        """Start again what has ended a moment ago."""
        for service in self.services.values():
            if service.pid is not None:
                continue
            if service.process is not None and not service.ended_s:
                service.ended_s = time.monotonic()
                service.exit_codes.append(service.process.returncode)
            if service.process is None or time.monotonic() - service.ended_s > RESTART_AFTER_S:
                service.process = self.spawn(service.argv, f"{service.name}.log", self.clock.environment)
                service.ended_s = 0.0

    def stop_services(self) -> list[str]:
        """SIGTERM to all of them; returns a line for each that did not end well."""
        unwilling = []
        for service in self.services.values():
            if service.process is not None and service.pid is not None:
                service.process.terminate()
        for service in self.services.values():
            if service.process is None:
                continue
            try:
                code = service.process.wait(COMMAND_LIMIT_S)
            except subprocess.TimeoutExpired:
                service.process.kill()
                service.process.wait()
                unwilling.append(f"{service.name} did not end within {COMMAND_LIMIT_S:.0f} s of SIGTERM")
            else:
                # One that was started a moment ago, by the nemesis, has no handler yet and ends as any process does;
                # what it may have left behind is looked for in any case.
                if code not in (0, -signal.SIGTERM):
                    unwilling.append(f"{service.name} ended with {code} at SIGTERM")
        return unwilling

    def spawn(
        self, arguments: Sequence[str], log_name: str, more: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """`python ARGUMENTS...` in the background; it ends when the harness does."""
        with (self.folder / log_name.replace(" ", "-")).open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *arguments],
                env=self.environment | dict(more or {}),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(signal.SIGTERM),
            )

    def run(self, *arguments: str, limit_s: float = COMMAND_LIMIT_S) -> subprocess.CompletedProcess[str]:
        """`python ARGUMENTS...` to its end. Raises subprocess.TimeoutExpired."""
        return subprocess.run(
            [sys.executable, *arguments],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )

    def ours(self) -> list[procfs.Process]:
        """Every living process of this installation: by its home in the environment, or its lock's mark."""
        locks = {self.lock(host) for host in self.hosts}
        found = []
        for pid in procfs.pids():
            home, lock = procfs.variable(pid, "DDQUEUE_HOME"), procfs.variable(pid, procfs.MARK)
            process = procfs.read(pid) if home == str(self.home) or lock in locks else None
            if process is not None and process.runs:
                found.append(process)
        return found


@contextmanager
def built(folder: Path, hosts: int, servers: str, broken: str | None) -> Iterator[World]:
    """A world whose servers serve and whose tables are made; `servers` is `embedded` or `system`.

    At the end everything of it is gone but the folder.
    """
    for name in ("postgres", "redis", "home"):
        (folder / name).mkdir(parents=True)
    programs = system_programs() if servers == "system" else embedded_programs(folder / "binaries")
    names = [f"chaos-{number}" for number in range(1, hosts + 1)]
    with Disk.under(folder / "home") as disk:
        world = World(
            folder,
            names,
            Postgres(folder / "postgres", programs),
            Redis(folder / "redis", programs),
            disk,
            Clock.made_in(folder),
            programs.versions(),
            broken,
        )
        lines = "\n".join(f"  {name}: {{gpus: 2, gpu: simulated, simulated: pcie}}" for name in names)
        (world.home / "inventory.yaml").write_text(_INVENTORY.format(hosts=lines))
        try:
            world.postgres.start()
            world.redis.start()
            made = world.run("-m", "ddqueue", "db", "upgrade")
            if made.returncode != 0:
                raise RuntimeError(f"the tables could not be made: {made.stderr}")
            yield world
        finally:
            _end_all(world)


def _end_all(world: World) -> None:
    """Whatever happened: nothing of this world outlives it."""
    deadline = time.monotonic() + COMMAND_LIMIT_S
    while (left := world.ours()) and time.monotonic() < deadline:
        for process in left:
            procfs.send(process.pid, signal.SIGKILL)
        for service in world.services.values():
            if service.process is not None:
                service.process.poll()
        time.sleep(0.05)
    for server in (world.postgres, world.redis):
        server.end(server.asks_to_end)


def open_folder() -> Path:
    """A new folder that the servers' account may enter."""
    folder = Path(tempfile.mkdtemp(prefix="ddqueue-chaos-"))
    folder.chmod(0o755)
    return folder
