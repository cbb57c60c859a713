"""What a box is to have: a release, and the files that make its services run with it."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

from deploy.services import Service


@dataclass(frozen=True)
class PlacedFile:
    """A file of root's at this path; its content may hold passwords, and is never shown."""

    path: str
    content: bytes = field(repr=False)
    mode: int = 0o644


@dataclass(frozen=True)
class Installation:
    """One deployment's outcome, as it is kept on the box too, so that it can be had back whole."""

    release: str
    services: tuple[Service, ...]
    files: tuple[PlacedFile, ...]
    host: str | None = None
    """The inventory's name of the host that its worker serves."""
    stop_limit_s: float = 60.0
    """The longest that one of its services may take to stop."""

    def to_json(self, by: str) -> bytes:
        """`by`: who deployed it."""
        files = [
            {"path": file.path, "mode": file.mode, "base64": base64.b64encode(file.content).decode()}
            for file in self.files
        ]
        kept = {
            "release": self.release,
            "services": [service.value for service in self.services],
            "host": self.host,
            "stop_limit_s": self.stop_limit_s,
            "by": by,
            "files": files,
        }
        return (json.dumps(kept, indent=1) + "\n").encode()


def from_json(text: bytes) -> Installation:
    """The inverse of `to_json`. Raises ValueError or KeyError for anything else."""
    kept: dict[str, Any] = json.loads(text)
    return Installation(
        release=kept["release"],
        services=tuple(Service(name) for name in kept["services"]),
        files=tuple(PlacedFile(file["path"], base64.b64decode(file["base64"]), file["mode"]) for file in kept["files"]),
        host=kept["host"],
        stop_limit_s=kept["stop_limit_s"],
    )
