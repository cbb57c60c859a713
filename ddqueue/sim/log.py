"""The server's log as SGLang writes it: timestamps with the rank, uvicorn's lines, bars without newlines."""

from __future__ import annotations

import os
from datetime import datetime

_STDERR = 2
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 503: "Service Unavailable"}


class ServerLog:
    """Writes unbuffered, so that a killed process has lost nothing. `ranks` > 1 adds ` TPn` to the ranks' lines."""

    def __init__(self, ranks: int, descriptor: int = _STDERR) -> None:
        self._ranks = ranks
        self._descriptor = descriptor

    def line(self, text: str) -> None:
        """A line of the parent."""
        self.raw(f"[{_now()}] {text}\n")

    def rank_line(self, text: str, rank: int = 0) -> None:
        """A line of one rank's scheduler."""
        suffix = f" TP{rank}" if self._ranks > 1 else ""
        self.raw(f"[{_now()}{suffix}] {text}\n")

    def every_rank(self, text: str) -> None:
        """The same line from every rank."""
        for rank in range(self._ranks):
            self.rank_line(text, rank)

    def access(self, peer: str, request_line: str, status: int) -> None:
        """uvicorn's line for one answered request."""
        self.line(f'INFO:     {peer} - "{request_line}" {status} {_REASONS.get(status, "")}'.rstrip())

    def raw(self, text: str | bytes) -> None:
        """Anything else; never raises, because a log nobody reads must not end a server."""
        data = text.encode() if isinstance(text, str) else text
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            return


def bar(done: int, total: int, what: str, elapsed_s: float) -> str:
    """One state of a tqdm bar, which starts with a carriage return and has no newline."""
    share = done / total
    eighths = round(share * 80)
    filled = "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")
    rate = f"{done / elapsed_s:5.2f}it/s" if done and elapsed_s > 0 else "?it/s"
    left = f"{(total - done) * elapsed_s / done:02.0f}" if done else "?"
    timing = f"[00:{elapsed_s:02.0f}<00:{left}, {rate}]" if done else "[00:00<?, ?it/s]"
    return f"\r{what}{share:4.0%}|{filled:10}| {done}/{total} {timing}"


def _now() -> str:
    return datetime.now().strftime("%Y-%m-%d %H:%M:%S")
