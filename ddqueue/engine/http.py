"""Small blocking requests to a server: readiness, configuration, flush. Never used while measuring."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

_LARGEST_REPLY = 8 * 2**20


@dataclass(frozen=True)
class Reply:
    """An HTTP reply of at most 8 MiB; a longer body is cut."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body's JSON value, or None when it is none, or nested more deeply than anything a server says."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


def ask(url: str, method: str, path: str, payload: Any = None, timeout_s: float = 10.0) -> Reply:
    """One request on a connection of its own, over after `timeout_s` however the answer trickles in.

    Raises:
        OSError: nobody answered, or not in time (timeouts and malformed HTTP included).
    """
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        body = None if payload is None else json.dumps(payload)
        connection.connect()
        with _cut_after(connection.sock, timeout_s):
            connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            response = connection.getresponse()
            return Reply(response.status, response.read(_LARGEST_REPLY))
    except (http.client.HTTPException, ValueError) as error:
        # ValueError: a length or a status that is a digit in some script, and no number.
        raise ConnectionError(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()


@contextmanager
def _cut_after(connection: socket.socket, limit_s: float) -> Iterator[None]:
    """Cut the connection when the block takes longer, and raise TimeoutError then: a socket's own limit counts each
    silence, so that a server which sends a byte now and then would never run into it."""
    late = threading.Event()

    def cut() -> None:
        late.set()
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(limit_s, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if late.is_set():
            raise TimeoutError(f"no whole answer within {limit_s:g} s") from error
        raise
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError(f"no whole answer within {limit_s:g} s")


def server_info(get: Callable[[str], Reply]) -> dict[str, Any] | None:
    """What the server says it runs, under the name that this build and older ones have for it; None when it does not
    say. `get` asks for a path."""
    for path in ("/server_info", "/get_server_info"):
        try:
            reply = get(path)
        except OSError:
            return None
        value = reply.json()
        if reply.status == 200 and isinstance(value, dict):
            return value
    return None


class Pending:
    """A request on a thread of its own, so that whoever waits for the answer can watch the server meanwhile."""

    def __init__(self, url: str, method: str, path: str, payload: Any = None, timeout_s: float = 10.0) -> None:
        self._outcome: Reply | OSError = TimeoutError("no answer yet")
        self._thread = threading.Thread(
            target=self._ask, args=(url, method, path, payload, timeout_s), name=f"{method} {path}", daemon=True
        )
        self._thread.start()

    def answered(self, wait_s: float) -> bool:
        """Whether it is over, well or badly, after at most `wait_s`."""
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def result(self) -> Reply:
        """Raises OSError as `ask` does, and before it is over."""
        if isinstance(self._outcome, OSError):
            raise self._outcome
        return self._outcome

    def _ask(self, url: str, method: str, path: str, payload: Any, timeout_s: float) -> None:
        try:
            self._outcome = ask(url, method, path, payload, timeout_s)
        except OSError as error:
            self._outcome = error
