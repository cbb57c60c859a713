"""What the worker writes to an attempt process: one line, once."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Order:
    """The job to work on, and the host to work on it."""

    host: str
    job_id: int

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Order:
        return cls(**json.loads(line))
