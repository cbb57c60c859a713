"""Which versions of ddqueue may work with a database: any that its newest contraction has not left behind.

Migrations expand first: what they add, an older program never misses. What an older program still needs is taken away
only by a later migration, which raises the oldest revision that is supported (docs/decisions/0019).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SchemaState:
    """Where a database is. Revisions are four digits, so that they compare as text; None = it has no tables of ours."""

    revision: str | None
    oldest_supported: str | None
    """The oldest revision whose programs still work with these tables."""


def refusal(known: str, found: SchemaState) -> str | None:
    """Why a program that was made for revision `known` must not touch the database, with the remedy; None if it may."""
    if found.revision is None or found.oldest_supported is None or found.revision < known:
        at = found.revision or "nothing"
        return f"the database's tables are at {at}, this version needs {known}; run: ddqueue db upgrade"
    if known < found.oldest_supported:
        return (
            f"this ddqueue is too old for the database: it knows tables up to {known}, they are at {found.revision} "
            f"and no longer serve versions before {found.oldest_supported}; install a newer ddqueue here"
        )
    return None
