"""Sending a message to a webhook: one POST of JSON over HTTP, with a limit on its time."""

from __future__ import annotations

import http.client
import json
import queue
import threading
import urllib.error
import urllib.request
from typing import Any

from ddqueue import __version__
from ddqueue.domain.webhooks import DeliveryFailed, WebhookMessage

_LIMIT_S = 20.0


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A message goes where the person said, and nowhere that its receiver says."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class HttpPost:
    """Implements services.webhooks.WebhookPost: at most `limit_s` for a whole try, whatever the receiver does."""

    def __init__(self, limit_s: float = _LIMIT_S) -> None:
        self._limit_s = limit_s
        self._opener = urllib.request.build_opener(_NoRedirect)

    def post(self, message: WebhookMessage) -> None:
        """Returns once the receiver has answered with 2xx. Raises DeliveryFailed."""
        ended: queue.Queue[DeliveryFailed | None] = queue.Queue(1)
        # A socket's own limit counts each silence, so that a receiver which sends a byte now and then would hold us.
        threading.Thread(target=lambda: ended.put(self._try(message)), name="webhook", daemon=True).start()
        try:
            failed = ended.get(timeout=self._limit_s)
        except queue.Empty:
            raise DeliveryFailed(self._late) from None
        if failed is not None:
            raise failed

    def _try(self, message: WebhookMessage) -> DeliveryFailed | None:
        request = urllib.request.Request(  # noqa: S310 -- https or http: check_url saw to it at submit
            message.url,
            data=json.dumps(message.body, ensure_ascii=False).encode(),
            method="POST",
            headers={
                "Content-Type": "application/json",
                "User-Agent": f"ddqueue/{__version__}",
                "X-Ddqueue-Message": str(message.message_id),
            },
        )
        try:
            # The text of the answer is nobody's business here: none of it is read.
            with self._opener.open(request, timeout=self._limit_s):
                return None
        except urllib.error.HTTPError as answer:
            answer.close()
            return DeliveryFailed(f"it answered {answer.code}")
        except urllib.error.URLError as error:
            return DeliveryFailed(self._said(error.reason))
        except (OSError, http.client.HTTPException, ValueError) as error:
            return DeliveryFailed(self._said(error))

    @property
    def _late(self) -> str:
        return f"no answer within {self._limit_s:g} s"

    def _said(self, error: object) -> str:
        """The kind of an error rather than its text, in which the URL may stand."""
        if isinstance(error, TimeoutError):
            return self._late  # the socket's own limit, which may come a moment before ours
        if isinstance(error, OSError) and error.strerror:
            return f"{type(error).__name__}: {error.strerror}"
        return type(error).__name__ if isinstance(error, BaseException) else "it could not be reached"
