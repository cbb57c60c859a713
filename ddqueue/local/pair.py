"""Both servers of one home, as children of this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ddqueue.errors import DdqueueError
from ddqueue.local import binaries, locks, passwords
from ddqueue.local.account import server_account
from ddqueue.local.home import Home
from ddqueue.local.postgres import Postgres
from ddqueue.local.record import Record, RunningProcess
from ddqueue.local.server import Server
from ddqueue.local.valkey import Valkey


class AlreadyOwned(DdqueueError):
    """Another process runs, or is just starting or stopping, the servers of this home."""


class ServerPair:
    """Postgres and Valkey of one home; only its owner may make one."""

    def __init__(self, home: Home, durable: bool = True) -> None:
        account = server_account()
        home.prepare(account)
        programs = binaries.find(home.binaries, account)
        secrets = passwords.load_or_make(home)
        self.postgres = Server(Postgres(home, programs, account, secrets.postgres, durable))
        self.valkey = Server(Valkey(home, programs, account, secrets.valkey))

    def start(self) -> None:
        """Return when both serve; on an error the caller still stops the pair.

        Raises:
            DdqueueError: one of them cannot be started.
        """
        for server in (self.postgres, self.valkey):
            server.start()

    def dead(self) -> list[Server]:
        """The servers that do not run now."""
        return [server for server in (self.postgres, self.valkey) if not server.is_running()]

    def stop(self) -> None:
        """Stop both in good order and wait until they are gone."""
        for server in (self.postgres, self.valkey):
            server.ask_to_stop()
        for server in (self.postgres, self.valkey):
            server.wait_stopped()

    def record(self) -> Record:
        """Where both are, for other processes; both must run."""
        return Record(
            database_url=self.postgres.recipe.url,
            redis_url=self.valkey.recipe.url,
            supervisor=RunningProcess.this(),
            postgres=RunningProcess(self.postgres.child.pid, self.postgres.child.start_ticks),
            valkey=RunningProcess(self.valkey.child.pid, self.valkey.child.start_ticks),
        )


@contextmanager
def sole_owner(home: Home) -> Iterator[int]:
    """Be the one process that runs this home's servers; the kernel gives it back when this process ends.

    Yields the descriptor of the lock, into which a supervisor writes who it is.

    Raises:
        AlreadyOwned: another process is.
        UsageError: the folder cannot be used.
    """
    home.prepare(server_account())
    try:
        descriptor = locks.hold(home.supervisor_lock, wait_s=0)
    except locks.Held:
        raise AlreadyOwned(f"{home.path}: another process runs the servers of this folder") from None
    try:
        os.ftruncate(descriptor, 0)
        yield descriptor
    finally:
        os.ftruncate(descriptor, 0)
        os.close(descriptor)
