"""The two servers' passwords, made once per home."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field

from ddqueue.errors import DdqueueError
from ddqueue.local.files import write_private
from ddqueue.local.home import Home


@dataclass(frozen=True)
class Passwords:
    """Safe inside a URL and inside both servers' configuration: letters, digits, `-` and `_` only."""

    postgres: str = field(repr=False)
    valkey: str = field(repr=False)


def load_or_make(home: Home) -> Passwords:
    """The passwords of `home`; made and stored at the first call, before any server learns them.

    Raises:
        DdqueueError: the file is damaged, or gone although a database exists whose password it held.
    """
    try:
        stored = json.loads(home.secrets.read_text())
        return Passwords(stored["postgres"], stored["valkey"])
    except FileNotFoundError:
        pass
    except (ValueError, KeyError, TypeError):
        raise DdqueueError(
            f"{home.secrets}: is damaged; restore it, or move {home.path} away to begin with an empty database"
        ) from None
    if (home.postgres / "data").exists():
        raise DdqueueError(
            f"{home.secrets}: is gone, and with it the password of the database in {home.postgres}\n"
            f"  restore it, or move {home.path} away to begin with an empty database"
        )
    made = {"postgres": secrets.token_urlsafe(24), "valkey": secrets.token_urlsafe(24)}
    write_private(home.secrets, json.dumps(made) + "\n")
    return Passwords(made["postgres"], made["valkey"])
