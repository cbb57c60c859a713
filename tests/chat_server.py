"""A chat endpoint whose every answer is scripted, down to the bytes on the socket."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

Script = Sequence[bytes | float]
"""What is written after the request was read; a number is a pause in seconds."""

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def chunk(delta: Mapping[str, Any] | None, finish_reason: str | None = None, **more: Any) -> bytes:
    """One event as SGLang writes it; `delta` None makes the one without choices."""
    choice = {"index": 0, "delta": {"reasoning_content": None, **(delta or {})}, "finish_reason": finish_reason}
    event = {"id": "x", "object": "chat.completion.chunk", "choices": [] if delta is None else [choice], **more}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def answer(content: str, reasoning: str = "", finish_reason: str = "stop", tokens: int = 9) -> list[bytes | float]:
    """A whole answer, in pieces of a few characters."""
    pieces = [{"reasoning_content": reasoning[at : at + 7]} for at in range(0, len(reasoning), 7)]
    pieces += [{"content": content[at : at + 7]} for at in range(0, len(content), 7)]
    usage = {"prompt_tokens": 11, "completion_tokens": tokens, "total_tokens": 11 + tokens}
    return [
        HEAD,
        chunk({"role": "assistant", "content": ""}),
        *(chunk(piece) for piece in pieces),
        chunk({}, finish_reason),
        chunk(None, usage=usage),
        DONE,
    ]


class ChatServer:
    """`script` gives what to write for a request's body. `requests` holds the bodies; `most_at_once` counts those that
    were open at the same time."""

    def __init__(self, script: Callable[[Mapping[str, Any]], Script], max_model_len: int | None = 4096) -> None:
        self.requests: list[dict[str, Any]] = []
        self.most_at_once = 0
        self._script = script
        self._open = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps({"data": [{"id": "the-model", "max_model_len": max_model_len}]}).encode()
                found = self.path == "/v1/models" and max_model_len is not None
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                outer.serve(json.loads(self.rfile.read(int(self.headers["Content-Length"]))), self.wfile)
                self.close_connection = True

            def log_message(self, *_: Any) -> None:
                """Nothing to say."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def open(self) -> int:
        """Requests that are being answered."""
        with self._lock:
            return self._open

    def serve(self, body: dict[str, Any], out: Any) -> None:
        with self._lock:
            self.requests.append(body)
            self._open += 1
            self.most_at_once = max(self.most_at_once, self._open)
        try:
            for step in self._script(body):
                if isinstance(step, float):
                    time.sleep(step)
                else:
                    out.write(step)
                    out.flush()
        except OSError:
            pass  # the client hung up, which is what some tests are about
        finally:
            with self._lock:
                self._open -= 1

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def chat_server(
    script: Callable[[Mapping[str, Any]], Script], max_model_len: int | None = 4096
) -> Iterator[ChatServer]:
    server = ChatServer(script, max_model_len)
    try:
        yield server
    finally:
        server.close()


def prompt_of(body: Mapping[str, Any]) -> str:
    """What was asked."""
    return str(body["messages"][-1]["content"])
