"""The two times that ddqueue promises of a cut. They are the only ones that decide a test here."""

from __future__ import annotations

import os

NOTICE_LIMIT_S = 10.0
"""From the cut until a client says that its server is away."""

RECOVER_LIMIT_S = 5.0
"""From the heal until the client works again."""

_LONGEST_FACTOR = 4.0


def allowance() -> float:
    """What the limits are multiplied with: 1 on a machine with a free core, more where processes wait for one, as a
    loaded machine is late with everything."""
    waiting = os.getloadavg()[0] / (os.cpu_count() or 1)
    return min(max(1.0, waiting), _LONGEST_FACTOR)
