"""A kept-open, non-blocking connection that carries one exchange after another."""

from __future__ import annotations

import select
import socket
from time import perf_counter

from ddqueue.measure.exchange import Exchange
from ddqueue.measure.http1 import Address

READ_BYTES = 64 * 1024

_WRITABLE = select.EPOLLOUT


class Connection:
    """Readiness is told by `poll`, which it registers with; whoever polls calls `ready`."""

    def __init__(self, address: Address, timeout_s: float, poll: select.epoll) -> None:
        """Connects, blocking for at most `timeout_s`. Raises OSError; TimeoutError when nobody accepts in time."""
        self._socket = socket.create_connection((address.host, address.port), timeout_s)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._receive = self._socket.recv
        self._unsent = memoryview(b"")
        self._poll = poll
        self.fd = self._socket.fileno()
        self.exchange: Exchange | None = None
        poll.register(self.fd, select.EPOLLIN)

    @property
    def usable(self) -> bool:
        """Whether it can carry another request: open, and the answer before was read to its end."""
        return self.fd >= 0 and (self.exchange is None or self.exchange.reusable)

    def start(self, request: bytes, exchange: Exchange) -> None:
        """Send `request`, as much as the socket takes now; its answer goes to `exchange`."""
        self.exchange = exchange
        self._unsent = memoryview(request)
        self._send()

    def ready(self, event: int) -> bool:
        """Do what `event` (an epoll mask) says can be done without waiting; whether the exchange is over."""
        exchange = self.exchange
        if exchange is None:
            return False
        if event & _WRITABLE:
            self._send()
        if event != _WRITABLE:
            self._read(exchange)
        return exchange.finished is not None

    def close(self) -> None:
        """Close at once; a server that still answers sees its client go, and frees what the request held."""
        if self.fd >= 0:
            self._poll.unregister(self.fd)
            self._socket.close()
            self.fd = -1

    def _read(self, exchange: Exchange) -> None:
        try:
            data = self._receive(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            exchange.closed(error)
            return
        read_at = perf_counter()
        if data:
            exchange.take(read_at, data)
        else:
            exchange.closed(None)

    def _send(self) -> None:
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError as error:
            if self.exchange is not None:
                self.exchange.closed(error)
            return
        self._poll.modify(self.fd, select.EPOLLIN | select.EPOLLOUT if self._unsent else select.EPOLLIN)
