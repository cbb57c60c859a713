"""Server-sent events: from body bytes, split anywhere, to the payload of each event."""

from __future__ import annotations


class EventReader:
    """Gives the `data:` payload of every event that is whole; comments and other fields are skipped."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def between_events(self) -> bool:
        """Whether no part of an event waits for its other part."""
        return not self._rest

    def feed(self, body: bytes) -> list[bytes]:
        """The payloads that `body` completes, in order."""
        data = self._rest + body if self._rest else body
        if b"\r" in data:
            # A carriage return at the end may be half of a line's end: it waits for its other half.
            data = data.replace(b"\r\n", b"\n")
        *events, self._rest = data.split(b"\n\n")
        return [payload for event in events if (payload := _payload(event)) is not None]


def _payload(event: bytes) -> bytes | None:
    if event.startswith(b"data: ") and b"\n" not in event:
        return event[6:]
    lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None
