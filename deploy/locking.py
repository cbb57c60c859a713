"""One deployment at a time on a box, whoever runs it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from deploy import layout
from deploy.connection import BoxConnection
from deploy.errors import BoxRefused, Busy

_LIMIT_S = 30.0
_HELD = b"held\n"
_BUSY = 75

# The kernel frees it with the shell that holds it, which ends with the ssh connection: so it outlives nobody.
_SCRIPT = f"""
exec 9>>"$1"
flock -n 9 || {{ cat "$1" >&2; exit {_BUSY}; }}
echo "$2, since $(date '+%Y-%m-%d %H:%M:%S')" >"$1"
echo held
cat >/dev/null
"""


@contextlib.contextmanager
def deploying(box: BoxConnection, who: str) -> Iterator[None]:
    """Be the only one who changes the box.

    Raises:
        Busy: somebody else does; the text says who.
    """
    with box.session(_SCRIPT, layout.LOCK, who) as channel:
        deadline = time.monotonic() + _LIMIT_S
        said = b""
        while said != _HELD:
            if channel.exit_status_ready() and not channel.recv_ready():
                holder = channel.recv_stderr(4096).decode("utf-8", "replace").strip()
                if channel.recv_exit_status() == _BUSY:
                    raise Busy(f"somebody else deploys to {box.target.name} just now: {holder}")
                raise BoxRefused(f"{layout.LOCK} cannot be locked: {holder}")
            if time.monotonic() > deadline:
                raise BoxRefused(f"{layout.LOCK} was not locked within {_LIMIT_S:.0f} s")
            if channel.recv_ready():
                said += channel.recv(64)
            else:
                time.sleep(0.02)
        yield
