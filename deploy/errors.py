"""The errors that end the deployment of one box, and leave the others alone."""

from __future__ import annotations

from ddqueue.errors import DdqueueError


class BoxRefused(DdqueueError):
    """The box did not do what it was told; the text has what it said."""


class Unhealthy(DdqueueError):
    """A service was started and does not work as it should; the text says what was seen."""


class Busy(DdqueueError):
    """Somebody else deploys to the box just now."""
