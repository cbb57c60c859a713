"""Postgres: how its cluster is made, how it is started, and when it serves."""

from __future__ import annotations

import logging
import os
import shutil
import signal
from pathlib import Path

from ddqueue.errors import DdqueueError
from ddqueue.local import tcp_port
from ddqueue.local.account import Account
from ddqueue.local.binaries import Binaries
from ddqueue.local.child import Child, Program, run_tool
from ddqueue.local.files import sync_folder, write_private
from ddqueue.local.home import Home

_log = logging.getLogger(__name__)

DATABASE = USER = "ddqueue"

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    # No socket: its path would have to fit into 107 bytes, and every local user could try it.
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    # One process for everything: the I/O workers would be three more beside a benchmark.
    "io_method": "sync",
    "huge_pages": "off",
    # Inside the data folder: systemd sweeps a user's /dev/shm at log-out, and /dev/shm is NCCL's.
    "dynamic_shared_memory_type": "mmap",
    # A vanished client's locks are free after about 11 s; the default is two hours.
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    "logging_collector": "off",
}
"""On the command line, so that they are this version's at every start, whatever the cluster's own file says."""


class Postgres:
    """A recipe for `Server`.

    `durable=False` is for data that nobody keeps: it then does not survive a power cut, but tests start faster.
    """

    name = "Postgres"

    def __init__(
        self, home: Home, binaries: Binaries, account: Account | None, password: str, durable: bool = True
    ) -> None:
        self.lock = home.postgres_lock
        self._home = home
        self._binaries = binaries
        self._account = account
        self._password = password
        self._durable = durable
        self._data = home.postgres / "data"
        self._port = 0

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{self._password}@127.0.0.1:{self._port}/{DATABASE}"

    def prepare(self, lock: int) -> None:
        """Make the cluster with its database, whole or not at all.

        Raises:
            DdqueueError: initdb failed, or the cluster is of another major version.
        """
        if not self._data.exists():
            self._create_cluster(lock)
        self._check_version()

    def program(self, lock: int) -> Program:
        self._drop_stale_pid_file()
        self._port = tcp_port.choose(self._home.run / "postgres.port")
        settings = SETTINGS | {"port": str(self._port)} | self._durability()
        argv = [str(self._binaries.postgres), "-D", str(self._data), *_options(settings)]
        return self._program(self.name, argv, lock, signal.SIGINT)

    def is_ready(self, child: Child) -> bool:
        lines = _pid_file_lines(self._data)
        # The eighth line is the state. The first is compared because the file of a killed server says `ready` for ever.
        return len(lines) >= 8 and lines[0] == str(child.pid) and lines[7].strip() == "ready"

    def _create_cluster(self, lock: int) -> None:
        _log.info("making a Postgres cluster in %s", self._data)
        draft = self._home.postgres / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        password_file = self._home.postgres / "password.new"
        write_private(password_file, f"{self._password}\n")
        if self._account:
            os.chown(password_file, self._account.uid, self._account.gid)
        try:
            run_tool(self._program("initdb", self._initdb_argv(draft, password_file), lock, signal.SIGTERM))
        finally:
            password_file.unlink(missing_ok=True)
        settings = SETTINGS | self._durability() | {"exit_on_error": "on"}
        run_tool(
            self._program(
                "making the database",
                [str(self._binaries.postgres), "--single", "-D", str(draft), *_options(settings), "template1"],
                lock,
                signal.SIGTERM,
                f"CREATE DATABASE {DATABASE} OWNER {USER};\n",
            )
        )
        draft.rename(self._data)
        sync_folder(self._data.parent)

    def _initdb_argv(self, draft: Path, password_file: Path) -> list[str]:
        return [
            str(self._binaries.initdb),
            f"--pgdata={draft}",
            f"--username={USER}",
            f"--pwfile={password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            # Built in, so that an upgrade of the machine's libc cannot reorder an index.
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--no-instructions",
            *([] if self._durable else ["--no-sync"]),
        ]

    def _check_version(self) -> None:
        made_by = (self._data / "PG_VERSION").read_text().strip()
        share = self._binaries.postgres.parent.parent / "share"
        # The catalogue's first line is `# PostgreSQL 18`.
        ours = (share / "postgres.bki").open().readline().split()[-1]
        if made_by != ours:
            raise DdqueueError(
                f"{self._data}: was made by Postgres {made_by}, and the installed one is {ours}\n"
                f"  install the ddqueue that made it and `ddqueue export`, or move {self._home.path} away"
            )

    def _drop_stale_pid_file(self) -> None:
        """Remove a pid file whose pid now names a stranger: Postgres would take the stranger for its elder and refuse.

        A dead pid is left to Postgres, which then also looks for backends that still use the shared memory.
        """
        lines = _pid_file_lines(self._data)
        if not lines:
            return
        try:
            argv = Path(f"/proc/{lines[0]}/cmdline").read_bytes().split(b"\0")
        except FileNotFoundError:
            return
        if os.fsencode(self._data) not in argv:
            _log.warning("dropping a stale postmaster.pid: pid %s is somebody else now", lines[0])
            (self._data / "postmaster.pid").unlink(missing_ok=True)

    def _durability(self) -> dict[str, str]:
        return {} if self._durable else {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

    def _program(self, name: str, argv: list[str], lock: int, stop_signal: signal.Signals, stdin: str = "") -> Program:
        return Program(
            name=name,
            argv=argv,
            lock=lock,
            log=self._home.logs / "postgres.log",
            account=self._account,
            stop_signal=stop_signal,
            stdin=stdin,
        )


def _options(settings: dict[str, str]) -> list[str]:
    return [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]


def _pid_file_lines(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []
