"""What a person should know about a measurement that is valid all the same."""

from __future__ import annotations

from enum import StrEnum


class Mark(StrEnum):
    """A named caveat. It takes no measurement out of the ranking: `Invalid` does that."""

    THROTTLED = "THROTTLED"
    """A GPU slowed itself down, because of heat or of a fault in its power supply."""
    POWER_CAPPED = "POWER_CAPPED"
    """A GPU ran at its power limit, as many do under load."""
    CLOCK_DRIFT = "CLOCK_DRIFT"
    """The clock of a GPU rose or fell within the window."""
    UNEVEN_CLOCKS = "UNEVEN_CLOCKS"
    """One GPU ran much slower than the others, which wait for it."""
    NO_BENEFIT = "NO_BENEFIT"
    """There is a drafter, and not one of its drafts was accepted."""
    IMPORTED = "IMPORTED"
    """Measured by hand and brought in from a file: nobody here saw how."""
