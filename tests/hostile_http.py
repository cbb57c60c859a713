"""A server that answers every request with bytes of a test's own, without an end if it likes; on a real socket."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

Answer = Callable[[str], Iterable[bytes]]
"""From a request's path to the pieces of its answer."""

BLOCK = b"a" * 65_536


def for_ever(piece: bytes, before: bytes = b"") -> Iterator[bytes]:
    """`before`, then `piece` until the client has gone."""
    yield before
    yield from itertools.repeat(piece)


def drip(piece: bytes, before: bytes = b"") -> Iterator[bytes]:
    """`before`, then one byte at a time, with pauses shorter than any limit on silence."""
    yield before
    for byte in itertools.cycle(piece):
        time.sleep(0.05)
        yield bytes([byte])


def times(piece: bytes, count: int, before: bytes = b"") -> Iterator[bytes]:
    """`before`, then `piece` so often."""
    yield before
    yield from itertools.repeat(piece, count)


@contextmanager
def hostile_server(answer: Answer) -> Iterator[str]:
    """Yields its URL. A connection carries one exchange."""
    closing = threading.Event()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        def serve(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                path = _request(connection)
                for piece in answer(path):
                    if closing.is_set():
                        return
                    connection.sendall(piece)
                connection.shutdown(socket.SHUT_WR)
                # Closing with something unread would reset the connection, and the answer would be lost.
                while connection.recv(65_536):
                    pass

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            closing.set()
            listener.shutdown(socket.SHUT_RDWR)


def _request(connection: socket.socket) -> str:
    """The path, once head and body of the request have been read."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65_536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line.partition(b":")[2]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    while len(body) < length:
        body += connection.recv(65_536)
    return head.split(b" ")[1].decode()
