"""Server-sent events: from body bytes, split anywhere, to the payload of each event."""

from __future__ import annotations

from ddqueue.measure.errors import MalformedAnswer

LARGEST_EVENT_BYTES = 4 * 2**20
"""An event holds all text of an answer so far: far more than any model's longest, and little enough to keep."""


class EventReader:
    """Gives the `data:` payload of every event that is whole; comments and other fields are skipped."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def between_events(self) -> bool:
        """Whether no part of an event waits for its other part."""
        return not self._rest

    def feed(self, body: bytes) -> list[bytes]:
        """The payloads that `body` completes, in order. Raises MalformedAnswer when an event does not end."""
        data = self._rest + body if self._rest else body
        if b"\r" in data:
            # A carriage return at the end may be half of a line's end: it waits for its other half.
            data = data.replace(b"\r\n", b"\n")
        *events, self._rest = data.split(b"\n\n")
        if len(self._rest) > LARGEST_EVENT_BYTES:
            raise MalformedAnswer(f"an event is larger than {LARGEST_EVENT_BYTES // 2**20} MiB")
        return [payload for event in events if (payload := _payload(event)) is not None]


def _payload(event: bytes) -> bytes | None:
    if event.startswith(b"data: ") and b"\n" not in event:
        return event[6:]
    lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None
