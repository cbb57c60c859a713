"""Valkey, which speaks Redis's protocol: how it is configured, started, and when it serves."""

from __future__ import annotations

import signal

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ddqueue.local import tcp_port
from ddqueue.local.account import Account
from ddqueue.local.binaries import Binaries
from ddqueue.local.child import Child, Program
from ddqueue.local.home import Home


class Valkey:
    """A recipe for `Server`."""

    name = "Valkey"

    def __init__(self, home: Home, binaries: Binaries, account: Account | None, password: str) -> None:
        self.lock = home.valkey_lock
        self._home = home
        self._binaries = binaries
        self._account = account
        self._password = password
        self._port = 0

    @property
    def url(self) -> str:
        return f"redis://:{self._password}@127.0.0.1:{self._port}/0"

    def prepare(self, lock: int) -> None:
        """Nothing: it makes its files itself."""

    def program(self, lock: int) -> Program:
        self._port = tcp_port.choose(self._home.run / "valkey.port")
        return Program(
            name=self.name,
            # `-` reads the configuration from stdin, so that the password is neither in `ps` nor in a file of its own.
            argv=[str(self._binaries.valkey_server), "-"],
            lock=lock,
            log=self._home.logs / "valkey.log",
            account=self._account,
            stop_signal=signal.SIGTERM,
            stdin=self._configuration(),
        )

    def is_ready(self, child: Child) -> bool:
        client = redis.Redis(
            host="127.0.0.1",
            port=self._port,
            password=self._password,
            socket_timeout=2,
            socket_connect_timeout=2,
            retry=Retry(NoBackoff(), 0),
        )
        try:
            with client:
                facts = client.info()
        except redis.RedisError:
            return False
        return facts["process_id"] == child.pid and not facts["loading"]

    def _configuration(self) -> str:
        settings = {
            "bind": "127.0.0.1",
            "port": str(self._port),
            "requirepass": self._password,
            "dir": _quoted(str(self._home.valkey)),
            "daemonize": "no",
            # A wake-up that was acknowledged outlives kill -9; a full memory is an error, not a lost message.
            "appendonly": "yes",
            "maxmemory-policy": "noeviction",
            # The append-only file holds everything; snapshots beside it would only cost time.
            "save": '""',
        }
        return "".join(f"{key} {value}\n" for key, value in settings.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
