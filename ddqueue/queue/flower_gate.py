"""What stands before every page of Flower: the password, and that nothing can be changed.

Flower's own options leave `/metrics` open beside a password, and refuse changes one handler at a time. Here one gate in
front of all handlers decides, so that a page which a later Flower adds is locked too.
"""

from __future__ import annotations

import binascii
import hmac
from base64 import b64decode
from dataclasses import dataclass
from typing import Any

from flower.app import Flower
from tornado.httputil import HTTPServerRequest
from tornado.web import RequestHandler

OPEN_PATHS = frozenset({"/healthcheck"})
"""Says OK and nothing else, for whoever supervises the process."""

READING = frozenset({"GET", "HEAD"})

READ_BY_POST = frozenset({"/tasks/datatable"})
"""The rows of the page /tasks, which asks for them by POST because the question is too long for an address."""

_READ_ONLY = "Flower only shows here: Postgres decides what runs. Use `ddqueue cancel`, `pause`, `hold` or `retry`."


@dataclass(frozen=True)
class Refusal:
    """An answer in the place of a page."""

    status: int
    text: str


@dataclass(frozen=True)
class Gate:
    """Lets the one user read, and nobody do anything else."""

    user: str
    password: str

    def refusal(self, method: str, path: str, authorization: str) -> Refusal | None:
        """None for a request that may pass; `authorization` is the header as it came, empty without one."""
        if path in OPEN_PATHS and method in READING:
            return None
        if not self._knows(authorization):
            return Refusal(401, "Flower wants the user and password that `ddqueue flower` was started with.")
        reads = method in READING or (method == "POST" and path in READ_BY_POST)
        return None if reads else Refusal(403, _READ_ONLY)

    def _knows(self, authorization: str) -> bool:
        scheme, _, encoded = authorization.partition(" ")
        try:
            given = b64decode(encoded.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        return scheme == "Basic" and hmac.compare_digest(given, f"{self.user}:{self.password}".encode())


class RefusingHandler(RequestHandler):
    """Answers every method with one refusal."""

    def initialize(self, refusal: Refusal) -> None:
        self._refusal = refusal

    def check_xsrf_cookie(self) -> None:
        """Nothing is done here that a forged request could want."""

    def prepare(self) -> None:
        self.set_status(self._refusal.status)
        if self._refusal.status == 401:
            self.set_header("WWW-Authenticate", 'Basic realm="ddqueue flower", charset="UTF-8"')
        self.set_header("Content-Type", "text/plain; charset=UTF-8")
        self.finish(self._refusal.text + "\n")


class GuardedFlower(Flower):  # type: ignore[misc]
    """Flower behind a gate."""

    def __init__(self, gate: Gate, **rest: Any) -> None:
        self._gate = gate
        super().__init__(**rest)

    def find_handler(self, request: HTTPServerRequest, **rest: Any) -> Any:
        """The page asked for, or the refusal."""
        refusal = self._gate.refusal(request.method or "", request.path, request.headers.get("Authorization", ""))
        if refusal is not None:
            return self.get_handler_delegate(request, RefusingHandler, {"refusal": refusal})
        return super().find_handler(request, **rest)
