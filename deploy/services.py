"""The services that a box may run."""

from __future__ import annotations

from enum import StrEnum


class Service(StrEnum):
    """One of ddqueue's long-running commands; its value is the command."""

    WORKER = "worker"
    """On each GPU host."""
    DISPATCHER = "dispatcher"
    """On the control machine, or on several machines: one leads."""
    FLOWER = "flower"
    """On the control machine."""

    @property
    def unit(self) -> str:
        """Its name among the box's services."""
        return f"ddqueue-{self.value}"
