"""Small blocking requests to a server: readiness, configuration, flush. Never used while measuring."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

_LARGEST_REPLY = 8 * 2**20


@dataclass(frozen=True)
class Reply:
    """An HTTP reply of at most 8 MiB; a longer body is cut."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body's JSON value, or None when it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


def ask(url: str, method: str, path: str, payload: Any = None, timeout_s: float = 10.0) -> Reply:
    """One request on a connection of its own.

    Raises:
        OSError: nobody answered, or not in time (timeouts and malformed HTTP included).
    """
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        body = None if payload is None else json.dumps(payload)
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        response = connection.getresponse()
        return Reply(response.status, response.read(_LARGEST_REPLY))
    except http.client.HTTPException as error:
        raise ConnectionError(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()
