"""A receiver of webhooks: a real HTTP server that answers as it is told and keeps what it got."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class HookServer:
    """`answers` are the status codes of the first requests, in order; every later one is answered with 200."""

    def __init__(self, answers: Sequence[int] = ()) -> None:
        self.got: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.hang = threading.Event()
        """Set it to have requests wait for ever, until the server closes."""
        self.closing = threading.Event()
        self._answers = list(answers)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append(json.loads(body))
                receiver.headers.append(dict(self.headers))
                if receiver.hang.is_set():
                    receiver.closing.wait()
                status = receiver._answers.pop(0) if receiver._answers else 200
                self.send_response(status)
                if status in (301, 302, 307):
                    self.send_header("Location", f"{receiver.url}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def serve(self) -> None:
        self._server.serve_forever(0.05)

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def hook_server(answers: Sequence[int] = ()) -> Iterator[HookServer]:
    server = HookServer(answers)
    threading.Thread(target=server.serve, daemon=True).start()
    try:
        yield server
    finally:
        server.close()
