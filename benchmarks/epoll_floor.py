"""The least that reading answers can cost in Python: `epoll_floor.py PORT CONCURRENCY REQUESTS OUTPUT_TOKENS`.

Keeps requests in flight like the load client, notes the time of every read, keeps its bytes, and understands nothing:
an answer is over when a read ends with HTTP's last chunk. Prints one line of JSON: `cpu_s` and `wall_s` of the window,
and `ttft_s`, the mean time from a request to the first read with an event in it, looked up afterwards.
"""

from __future__ import annotations

import json
import select
import socket
import sys
from statistics import fmean
from time import perf_counter, process_time

LAST_CHUNK = b"0\r\n\r\n"
EVENT = b"data: "


def main() -> None:
    port, concurrency, requests, output = (int(argument) for argument in sys.argv[1:])
    body = json.dumps(
        {
            "input_ids": list(range(1000, 1060)),
            "sampling_params": {"max_new_tokens": output, "temperature": 0, "ignore_eos": True},
            "stream": True,
        }
    ).encode()
    request = b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    poll, sockets = select.epoll(), {}
    for _ in range(concurrency):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets[connection.fileno()] = connection
        poll.register(connection.fileno(), select.EPOLLIN)
    reads: list[tuple[float, int, bytes]] = []
    cpu_before_s, started = process_time(), perf_counter()
    for fd, connection in sockets.items():
        # A request is noted like a read without bytes.
        reads.append((perf_counter(), fd, b""))
        connection.send(request)
    unsent, unfinished = requests - concurrency, requests
    while unfinished:
        for fd, _ in poll.poll():
            data = sockets[fd].recv(65536)
            reads.append((perf_counter(), fd, data))
            if data.endswith(LAST_CHUNK):
                unfinished -= 1
                if unsent:
                    unsent -= 1
                    reads.append((perf_counter(), fd, b""))
                    sockets[fd].send(request)
    window = {"cpu_s": process_time() - cpu_before_s, "wall_s": perf_counter() - started}
    print(json.dumps({**window, "ttft_s": fmean(first_tokens_s(reads))}))  # noqa: T201


def first_tokens_s(reads: list[tuple[float, int, bytes]]) -> list[float]:
    """Seconds from each request to the first read that held an event."""
    waiting: dict[int, float] = {}
    found = []
    for at, fd, data in reads:
        if not data:
            waiting[fd] = at
        elif fd in waiting and EVENT in data:
            found.append(at - waiting.pop(fd))
    return found


if __name__ == "__main__":
    main()
