"""Example files that come with ddqueue, read by `ddqueue init` and `ddqueue demo`."""

from __future__ import annotations

from importlib import resources

NAMES = ("inventory.yaml", "inventory-sim.yaml", "example.yaml", "demo.yaml", "demo-block16.yaml")


def example(name: str) -> str:
    """The text of one of `NAMES`. Raises KeyError for any other name."""
    if name not in NAMES:
        raise KeyError(name)
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
