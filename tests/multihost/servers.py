"""The control host's Postgres and Valkey: ddqueue's embedded ones, listening on the bridge too."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

from ddqueue.local import binaries, passwords
from ddqueue.local.account import server_account
from ddqueue.local.child import Program
from ddqueue.local.home import Home
from ddqueue.local.postgres import Postgres
from ddqueue.local.server import Server
from ddqueue.local.valkey import Valkey

from . import network


class _BridgePostgres(Postgres):
    """Also for the boxes, by password."""

    @property
    def url(self) -> str:
        return _for_boxes(super().url)

    def prepare(self, lock: int) -> None:
        super().prepare(lock)
        rules = self._data / "pg_hba.conf"
        rule = f"host all all {network.NETWORK} scram-sha-256\n"
        if rule not in rules.read_text():
            with rules.open("a") as file:
                file.write(rule)

    def program(self, lock: int) -> Program:
        program = super().program(lock)
        # The last of two settings of one name counts.
        return replace(program, argv=[*program.argv, "-c", f"listen_addresses=127.0.0.1,{network.CONTROL_ADDRESS}"])


class _BridgeValkey(Valkey):
    @property
    def url(self) -> str:
        return _for_boxes(super().url)

    def program(self, lock: int) -> Program:
        program = super().program(lock)
        return replace(program, stdin=f"{program.stdin}bind 127.0.0.1 {network.CONTROL_ADDRESS}\n")


class ControlServers:
    """Both servers; what was acknowledged survives `kill`, as on a machine with a disk. For the main thread only."""

    def __init__(self, folder: Path) -> None:
        home = Home(folder)
        account = server_account()
        home.prepare(account)
        programs = binaries.find(home.binaries, account)
        secrets = passwords.load_or_make(home)
        self._servers = [
            Server(_BridgePostgres(home, programs, account, secrets.postgres)),
            Server(_BridgeValkey(home, programs, account, secrets.valkey)),
        ]

    @property
    def database_url(self) -> str:
        return self._servers[0].recipe.url

    @property
    def redis_url(self) -> str:
        return self._servers[1].recipe.url

    def start(self) -> None:
        """At the addresses of the last start. Raises DdqueueError."""
        for server in self._servers:
            server.start()

    def kill(self) -> None:
        """As a power cut does it: no good-bye to anybody."""
        for server in self._servers:
            os.kill(server.child.pid, signal.SIGKILL)
        for server in self._servers:
            server.wait_stopped()

    def stop(self) -> None:
        for server in self._servers:
            server.ask_to_stop()
        for server in self._servers:
            server.wait_stopped()


def _for_boxes(url: str) -> str:
    return url.replace("@127.0.0.1:", f"@{network.CONTROL_ADDRESS}:")
