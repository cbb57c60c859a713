"""The closed loop: a fixed number of requests in flight until each was sent once.

A bare epoll loop: with asyncio's, every chunk that arrives cost about a quarter more, and a client that shares its host
with the server must be cheap.
"""

from __future__ import annotations

import gc
import os
import select
from collections import deque
from collections.abc import Iterator, Sequence
from time import perf_counter

from ddqueue.measure.connection import Connection
from ddqueue.measure.errors import FirstTokenTimeout, IdleTimeout, TotalTimeout
from ddqueue.measure.exchange import Exchange
from ddqueue.measure.http1 import Address
from ddqueue.measure.limits import Limits
from ddqueue.measure.own_cost import OwnCost

GENERATE = "/generate"
TICK_S = 0.05


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
        self._poll = select.epoll()
        self._live: dict[int, Connection] = {}
        self._refusal: OSError | None = None
        self.exchanges: list[Exchange] = []
        self.lag_max_s = 0.0
        """The longest that the loop did not look: at work between two polls, or asleep beyond a poll's own limit."""
        self.cost = OwnCost(0.0, None)
        """What the window took of the machine, from the first request sent to the last one's end."""

    def run(self) -> None:
        """Returns when every request has ended."""
        opened = [self._open() for _ in range(self._concurrency)]
        # The collector would stop every stream at once to look at objects that live until the end anyway.
        gc.collect()
        gc.disable()
        before = OwnCost.so_far()
        try:
            for connection in opened:
                self._next(connection)
            self._loop()
        finally:
            self.cost = OwnCost.so_far().since(before)
            gc.enable()
            self._poll.close()

    def _loop(self) -> None:
        live, poll, parent = self._live, self._poll.poll, os.getppid()
        now = perf_counter()
        next_tick = now + TICK_S
        # Answers often end together. To send 32 requests takes milliseconds, in which the last tokens of the other
        # answers would be stamped late, so that all reads go before each request.
        free: deque[Connection] = deque()
        while live or free:
            asleep = now
            events = poll(0 if free else TICK_S)
            woke = perf_counter()
            for fd, event in events:
                connection = live.get(fd)
                if connection is not None and connection.ready(event):
                    free.append(live.pop(fd))
            if free:
                self._next(free.popleft())
            now = perf_counter()
            lag_s = max(now - woke, woke - asleep - TICK_S)
            if lag_s > self.lag_max_s:
                self.lag_max_s = lag_s
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
        for index, request in self._turns:
            if connection is not None and not connection.usable:
                connection.close()
                connection = None
            if connection is None:
                connection = self._open()
            exchange = Exchange(index, self._limits.events)
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
        for fd, connection in list(self._live.items()):
            exchange = connection.exchange
            if exchange is not None and self._overdue(exchange, now):
                del self._live[fd]
                self._next(connection)

    def _overdue(self, exchange: Exchange, now: float) -> bool:
        """Fail an exchange that is past a limit."""
        limits = self._limits
        silent_s = now - exchange.last_read
        if now - exchange.started > limits.total_s:
            exchange.fail(TotalTimeout(f"not finished after {limits.total_s:g} s"))
        elif not exchange.began and now - exchange.started > limits.first_token_s:
            exchange.fail(FirstTokenTimeout(f"nothing came within {limits.first_token_s:g} s"))
        elif exchange.began and silent_s > limits.idle_s:
            exchange.fail(IdleTimeout(f"silent for {limits.idle_s:g} s after the answer had begun"))
        return exchange.finished is not None
