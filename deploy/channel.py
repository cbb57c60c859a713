"""One command on an ssh channel: its input sent, both of its outputs read, its end awaited."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko

from deploy.errors import BoxRefused

_CHUNK = 1 << 18
_POLL_S = 0.02
_SEND_LIMIT_S = 60.0
_LAST_WORDS_S = 1.0
"""How long output may still come after the end, from something that was left in the background."""
_STORY_LINES = 12


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    raw: bytes
    """Standard output."""
    error_text: str

    @property
    def output(self) -> str:
        return self.raw.decode("utf-8", "replace")

    @property
    def story(self) -> str:
        """The end of what it said, in one text."""
        lines = [*self.output.splitlines(), *self.error_text.splitlines()][-_STORY_LINES:]
        said = "\n  ".join(line.rstrip() for line in lines if line.strip())
        return f"exit code {self.code}\n  {said}" if said else f"exit code {self.code}"


def converse(
    channel: paramiko.Channel, stdin: bytes | Path, limit_s: float, heard: Callable[[bytes], None] | None
) -> Done:
    """Feed the command `stdin` (a Path: that file's content), and read it to its end.

    Raises:
        BoxRefused: it did not end within `limit_s`, counted from the end of its input.
        OSError, SSHException: the connection broke.
    """
    _feed(channel, stdin)
    output, errors = bytearray(), bytearray()
    deadline = time.monotonic() + limit_s
    ended_s: float | None = None
    while True:
        moved = False
        while channel.recv_ready():
            moved = True
            data = channel.recv(_CHUNK)
            if heard is None:
                output += data
            else:
                heard(data)
        while channel.recv_stderr_ready():
            moved = True
            errors += channel.recv_stderr(_CHUNK)
        now_s = time.monotonic()
        if channel.exit_status_ready():
            ended_s = ended_s or now_s
            if not moved and (channel.eof_received or now_s - ended_s > _LAST_WORDS_S):
                break
        if now_s > deadline:
            raise BoxRefused(f"no end within {limit_s:.0f} s; last it said: {bytes(errors[-300:])!r}")
        if not moved:
            time.sleep(_POLL_S)
    code = channel.recv_exit_status()
    if code < 0 and not channel.get_transport().is_active():
        raise EOFError("it was cut before the command had ended")
    return Done(code, bytes(output), errors.decode("utf-8", "replace"))


def _feed(channel: paramiko.Channel, stdin: bytes | Path) -> None:
    channel.settimeout(_SEND_LIMIT_S)
    try:
        for chunk in _chunks(stdin):
            channel.sendall(chunk)
        channel.shutdown_write()
    except OSError:
        # Whoever ends without reading says why with its exit code.
        if not channel.exit_status_ready():
            raise


def _chunks(stdin: bytes | Path) -> Iterator[bytes]:
    if isinstance(stdin, bytes):
        if stdin:
            yield stdin
        return
    with stdin.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk
