"""The host's side of a run: reads what the program writes, within bounds, and carries its dialogue."""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
from collections.abc import Callable
from time import monotonic
from typing import IO, Protocol

_CHUNK = 1 << 16
_END_S = 5.0


class Dialogue(Protocol):
    """Talks with a program over its private channel. The program is not to be trusted: any line may come."""

    def hear(self, line: str) -> str | None:
        """A line that the program sent, without its end; returns a line to send back, or None."""
        ...


class Exchange:
    """Everything that flows between one sandbox and the host, until its processes are gone.

    `stdout` and `stderr` hold at most the bound on output together; `report` is what the keeper said, at its end.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        report: IO[bytes],
        channel: socket.socket,
        output_bytes: int,
        dialogue: Dialogue | None,
    ) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdout, self.stderr, self.report = bytearray(), bytearray(), bytearray()
        self.too_much = False
        self.late = False
        self._process = process
        self._dialogue = dialogue
        self._room = output_bytes
        self._heard, self._to_say = bytearray(), bytearray()
        self._readers: dict[int, Callable[[int], None]] = {
            process.stdout.fileno(): lambda fd: self._keep_output(fd, self.stdout),
            process.stderr.fileno(): lambda fd: self._keep_output(fd, self.stderr),
            report.fileno(): self._keep_report,
            channel.fileno(): self._talk,
        }
        self._selector = selectors.DefaultSelector()

    def until_ended(self, call_back: Callable[[], None], deadline: float) -> None:
        """Carry on until the sandbox has ended; `call_back` tells it to end, at once or soon after `deadline`."""
        ended = os.pidfd_open(self._process.pid)
        try:
            for fd in self._readers:
                os.set_blocking(fd, False)
                self._selector.register(fd, selectors.EVENT_READ)
            self._selector.register(ended, selectors.EVENT_READ)
            self._carry(ended, call_back, deadline)
        finally:
            os.close(ended)
            self._selector.close()

    def _carry(self, ended: int, call_back: Callable[[], None], deadline: float) -> None:
        called_back = False
        while True:
            ready = {key.fd for key, _ in self._selector.select(max(0.0, deadline - monotonic()))}
            for fd in ready - {ended}:
                self._readers[fd](fd)
            if ready == {ended}:
                return  # And the pipes hold nothing more.
            if monotonic() > deadline or (self.too_much and not called_back):
                if called_back:
                    self._process.kill()
                else:
                    self.late = not self.too_much
                    call_back()
                called_back, deadline = True, monotonic() + _END_S

    def _keep_output(self, fd: int, kept: bytearray) -> None:
        kept += self._within_bound(self._read(fd))

    def _keep_report(self, fd: int) -> None:
        self.report += self._read(fd)

    def _talk(self, fd: int) -> None:
        if not self._to_say:
            self._heard += self._within_bound(self._read(fd))
            *lines, rest = bytes(self._heard).split(b"\n")
            self._heard = bytearray(rest)
            for line in lines:
                reply = self._dialogue.hear(line.decode("utf-8", "replace")) if self._dialogue else None
                if reply is not None:
                    self._to_say += reply.encode() + b"\n"
        if self._to_say:
            self._say(fd)

    def _say(self, fd: int) -> None:
        """Write what the socket takes now; until all is said, wait for room rather than for more questions."""
        try:
            del self._to_say[: os.write(fd, self._to_say)]
        except BlockingIOError:
            pass
        except OSError:
            self._to_say.clear()  # Nobody listens any more.
        if fd in self._selector.get_map():
            self._selector.modify(fd, selectors.EVENT_WRITE if self._to_say else selectors.EVENT_READ)

    def _read(self, fd: int) -> bytes:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return b""
        except OSError:  # A socket whose other end closed with something unread.
            data = b""
        if not data:
            self._selector.unregister(fd)
        return data

    def _within_bound(self, data: bytes) -> bytes:
        kept = data[: self._room]
        self._room -= len(kept)
        self.too_much = self.too_much or len(kept) < len(data)
        return kept
