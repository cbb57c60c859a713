"""The closed loop: a fixed number of requests in flight until each was sent once.

A bare epoll loop: with asyncio's, every chunk that arrives cost about a quarter more, and a client that shares its host
with the server must be cheap.
"""

from __future__ import annotations

import gc
import os
import select
from collections.abc import Iterator, Sequence
from time import perf_counter

from ddqueue.measure.connection import Connection
from ddqueue.measure.errors import FirstTokenTimeout, IdleTimeout, TotalTimeout
from ddqueue.measure.exchange import Exchange
from ddqueue.measure.http1 import Address
from ddqueue.measure.limits import Limits

GENERATE = "/generate"
TICK_S = 0.05
PENDING_BYTES = 16 * 1024 * 1024
"""Unread bytes kept over all connections; beyond their share of it, a connection reads its events inside the window."""


class Window:
    """One run of `bodies` (JSON, one a request) with `concurrency` in flight.

    Connections are open before the window begins. A request that fails is never sent again, and its place in the loop
    goes on to the next one.
    """

    def __init__(self, address: Address, bodies: Sequence[bytes], concurrency: int, limits: Limits) -> None:
        self._turns: Iterator[tuple[int, bytes]] = enumerate([address.post(GENERATE, body) for body in bodies])
        self._address = address
        self._concurrency = min(concurrency, len(bodies))
        self._limits = limits
        self._pending_limit_bytes = max(64 * 1024, PENDING_BYTES // max(1, self._concurrency))
        self._poll = select.epoll()
        self._live: dict[int, Connection] = {}
        self._refusal: OSError | None = None
        self.exchanges: list[Exchange] = []
        self.lag_max_s = 0.0
        """The longest that the loop worked between two polls: no read was stamped later than that."""

    def run(self) -> None:
        """Returns when every request has ended."""
        opened = [self._open() for _ in range(self._concurrency)]
        # The collector would stop every stream at once to look at objects that live until the end anyway.
        gc.collect()
        gc.disable()
        try:
            for connection in opened:
                self._next(connection)
            self._loop()
        finally:
            gc.enable()
            self._poll.close()

    def _loop(self) -> None:
        live, poll, parent = self._live, self._poll.poll, os.getppid()
        next_tick = perf_counter() + TICK_S
        while live:
            events = poll(TICK_S)
            woke = perf_counter()
            for fd, event in events:
                connection = live[fd]
                connection.ready(event)
                exchange = connection.exchange
                if exchange is not None and exchange.finished is not None:
                    self._next(connection)
            now = perf_counter()
            self.lag_max_s = max(self.lag_max_s, now - woke)
            if now >= next_tick:
                next_tick = now + TICK_S
                if os.getppid() != parent:
                    # Whoever wanted the numbers is gone: load without an owner would disturb the next measurement.
                    os._exit(1)
                self._end_overdue(now)

    def _next(self, connection: Connection | None) -> None:
        """Give the next request to `connection`, or to a new one where it cannot carry another; close it when no
        request is left.

        Connecting anew blocks the loop, but happens only after a failure, or with a server that closes every time.
        """
        if connection is not None:
            self._live.pop(connection.fd, None)
        for index, request in self._turns:
            if connection is not None and not connection.usable:
                connection.close()
                connection = None
            if connection is None:
                connection = self._open()
            exchange = Exchange(index, self._pending_limit_bytes)
            self.exchanges.append(exchange)
            if connection is None:
                exchange.fail(self._refusal or ConnectionError("not connected"))
                continue
            connection.start(request, exchange)
            if exchange.finished is None:
                self._live[connection.fd] = connection
                return
        if connection is not None:
            connection.close()

    def _open(self) -> Connection | None:
        """A new connection, or None with the reason in `_refusal`."""
        if isinstance(self._refusal, TimeoutError):
            # Nobody answered at all: waiting as long again for every request would help nobody.
            return None
        try:
            return Connection(self._address, self._limits.connect_s, self._poll)
        except OSError as error:
            self._refusal = error
            return None

    def _end_overdue(self, now: float) -> None:
        for connection in list(self._live.values()):
            exchange = connection.exchange
            if exchange is not None and self._overdue(exchange, now):
                self._next(connection)

    def _overdue(self, exchange: Exchange, now: float) -> bool:
        """Fail an exchange that is past a limit; also reads what waits, so that an end in an odd place is seen."""
        limits = self._limits
        silent_s = now - exchange.last_read
        if silent_s > TICK_S:
            exchange.read_framing()
        if now - exchange.started > limits.total_s:
            exchange.fail(TotalTimeout(f"not finished after {limits.total_s:g} s"))
        elif not exchange.began and now - exchange.started > limits.first_token_s:
            exchange.fail(FirstTokenTimeout(f"nothing came within {limits.first_token_s:g} s"))
        elif exchange.began and silent_s > limits.idle_s:
            exchange.fail(IdleTimeout(f"silent for {limits.idle_s:g} s after the answer had begun"))
        return exchange.finished is not None
