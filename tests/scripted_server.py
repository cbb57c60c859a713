"""A server that follows a script: `python scripted_server.py SCRIPT [SGLang's arguments]`.

It stands in for what SGLang did in reports and a simulator of healthy servers does not do. Every script answers like
SGLang where it answers at all.
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

FOR_EVER_S = 3600.0


class Answers(http.server.BaseHTTPRequestHandler):
    """SGLang's answers; `health` is what /health says, `stall_s` how long a generation takes."""

    health = 200
    stall_s = 0.0
    tag = "default"
    knows = True
    tokens = 4
    busy = 0
    """How many more flushes are refused because a request runs."""
    compiles = False

    def do_GET(self) -> None:
        if not self.knows:
            self._reply(404, {"detail": "Not Found"})
        elif self.path == "/health":
            self._reply(self.health, {})
        elif self.path == "/server_info":
            self._reply(200, {"weight_version": self.tag, "tp_size": 1})
        else:
            self._reply(404, {})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/flush_cache":
            status = 400 if self.busy else 200
            type(self).busy = max(0, self.busy - 1)
            self._reply(status, {})
            return
        if self.compiles:
            say("flashinfer.jit: Compiling fused_moe for a shape met for the first time")
        time.sleep(self.stall_s)
        meta = {"completion_tokens": self.tokens, "weight_version": self.tag}
        self._reply(200, {"text": "a time", "meta_info": meta})

    def _reply(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        say(f'INFO:     127.0.0.1:1 - "{self.requestline}" {code}')


def say(text: str) -> None:
    os.write(1, f"[2026-11-29 11:46:10] {text}\n".encode())


def bar(text: str) -> None:
    os.write(1, f"\rCapturing batches (bs=8 avail_mem=9.99 GB): {text} [00:00<?, ?it/s]".encode())


def argument(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def answer(**changes: Any) -> None:
    """Start answering on the port asked."""
    for name, value in {"tag": argument("--weight-version"), **changes}.items():
        setattr(Answers, name, value)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(argument("--port"))), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def child(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-S", "-c", *words])


def late_health() -> None:
    """503 for some polls, then 200, and the first generation takes its time."""
    answer(health=503, stall_s=2.0)
    time.sleep(0.5)
    Answers.health = 200


def endless_generation() -> None:
    answer(stall_s=FOR_EVER_S)


def no_tokens() -> None:
    answer(tokens=0)


def dead_child() -> None:
    """A child dies on a refused download; the parent does not notice and answers 503 for ever."""
    answer(health=503)
    text = "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: /config.json"
    child(f"import sys; sys.stderr.write('Traceback (most recent call last):\\n{text}\\n'); sys.exit(1)")


def survived_traceback() -> None:
    """A traceback of something the server does without, then silence, then ready."""
    os.write(1, b"Traceback (most recent call last):\nOSError: 429 Client Error: Too Many Requests for url: /x.json\n")
    time.sleep(1.5)
    answer()


def traceback_and_exit() -> None:
    time.sleep(0.3)
    raise RuntimeError("the model fell over")


def capture(steps: int, every_s: float) -> None:
    say("Capture target decode CUDA graph begin. backend=full, num_tokens_per_bs=1, bs=[8], avail mem=9 GB")
    for step in range(1, steps + 1):
        bar(f"{step * 4}%|\u258d         | {step}/23")
        time.sleep(every_s)


def stuck_bar() -> None:
    """The bar stops at 1/23, and is drawn again and again."""
    while True:
        capture(1, 0.05)


def slow_bar() -> None:
    """Each step is slower than a poll and faster than the limit; all of them together are slower than the limit."""
    capture(8, 0.4)
    answer()


def compiling() -> None:
    """Silence, while a process named like a compiler runs."""
    name = "import time; open('/proc/self/comm', 'w').write('nvcc'); time.sleep(2.5)"
    child(name).wait()
    answer()


def compiling_for_ever() -> None:
    child("import time; open('/proc/self/comm', 'w').write('ptxas'); time.sleep(3600)").wait()


def only_503() -> None:
    """Every poll of ours makes a line in its log."""
    answer(health=503)


def another_port() -> None:
    """Takes the next port when the one asked is taken, as some launchers do."""
    say(f"server_args=ServerArgs(model_path='/m', port={argument('--port')}, tp_size=1)")
    say("INFO:     Uvicorn running on http://127.0.0.1:19999 (Press CTRL+C to quit)")


def noisy() -> None:
    """200 MiB of output, half of it before it is ready, with bytes that are no text."""
    block = b"\x1b[32m\xff\xe2\x96" + b"x" * 1000 + b"\r" + b"y" * 1000 + b"\n"
    say("the first line")
    for _ in range(100 * 2**20 // len(block)):
        os.write(1, block)
    answer()
    for _ in range(100 * 2**20 // len(block)):
        os.write(1, block)
    say("the last line")


def deaf() -> None:
    """SIGTERM is ignored, by a child too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child("import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(3600)")
    answer()


def leaves_a_sleeper() -> None:
    """Double-forks a listener on the next port into a session of its own."""
    code = (
        "import os, socket, sys, time; os.setsid(); os.fork() and os._exit(0);"
        f"s = socket.create_server(('127.0.0.1', {int(argument('--port')) + 1})); time.sleep(3600)"
    )
    child(code).wait()
    answer()


def busy_at_first() -> None:
    """The first two flushes are refused."""
    answer(busy=2)


def always_busy() -> None:
    answer(busy=1_000_000)


def compiles_when_asked() -> None:
    """Every generation meets a shape for the first time."""
    answer(compiles=True)


def ranks(*titles: str) -> list[subprocess.Popen[bytes]]:
    """Processes named like SGLang's, which names its own."""
    code = f"import time; time.sleep({FOR_EVER_S})"
    return [subprocess.Popen([title, "-S", "-c", code], executable=sys.executable) for title in titles]


def two_ranks() -> None:
    """Serves with two ranks, whose end it does not notice, and does not hear SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ranks("sglang::scheduler_TP0", "sglang::scheduler_TP1", "sglang::detokenizer")
    answer()


def waits_for_core_dumps() -> None:
    """Serves, then says that it ends, and does not."""
    answer()
    time.sleep(0.5)
    say("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
    say("Waiting 60.0 seconds for CUDA coredumps before exiting.")


def loading() -> None:
    say("Load weight begin. avail mem=9.99 GB")


def ready() -> None:
    answer()


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")]()
    time.sleep(FOR_EVER_S)
