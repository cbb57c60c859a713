"""Why a request failed, as the load client names it: the class's name is stored with the text."""

from __future__ import annotations

TEXT_LIMIT = 500
"""Characters of an error's text that are kept: enough for a server's message, too few for a page of HTML."""

NUL_SHOWN = "\N{SYMBOL FOR NULL}"


class HttpError(Exception):
    """The server answered with another status than 200; the text is the status and its body."""


class ServerError(Exception):
    """The server reported an error inside a stream, or aborted the request."""


class ClosedEarly(Exception):
    """The answer ended without the `[DONE]` that says it was whole."""


class MalformedAnswer(Exception):
    """The bytes are not HTTP, or an event is not JSON."""


class FirstTokenTimeout(Exception):
    """Nothing came within the limit for the first token."""


class IdleTimeout(Exception):
    """An answer fell silent for longer than the idle limit."""


class TotalTimeout(Exception):
    """The request took longer than its total limit."""


def described(error: BaseException) -> str:
    """`Type: text`, bounded and without U+0000; the type alone when the exception has no text."""
    text = str(error).replace("\0", NUL_SHOWN).strip()
    name = type(error).__name__
    return f"{name}: {text[:TEXT_LIMIT]}" if text else name
