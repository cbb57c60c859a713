"""The deployments of a box that passed their health check: what a failed one, or a person, goes back to."""

from __future__ import annotations

from deploy import layout
from deploy.connection import BoxConnection
from deploy.errors import BoxRefused
from deploy.installation import Installation, from_json

KEPT = 3


class History:
    """Files of a box, numbered from 1; the newest says what runs there."""

    def __init__(self, box: BoxConnection) -> None:
        self._box = box

    def newest(self) -> Installation | None:
        """What runs there; None when nothing was deployed yet."""
        return self._read(-1)

    def previous(self) -> Installation | None:
        """The one before that."""
        return self._read(-2)

    def add(self, installation: Installation, by: str) -> None:
        """Remember it as the newest, and forget the oldest."""
        names = self._names()
        number = int(names[-1].removesuffix(".json")) + 1 if names else 1
        self._box.write(f"{layout.HISTORY}/{number:06d}.json", installation.to_json(by), 0o600)
        self._remove(self._names()[:-KEPT])

    def drop_newest(self) -> None:
        """Forget what ran last."""
        self._remove(self._names()[-1:])

    def releases(self) -> set[str]:
        """Those that a deployment in it needs."""
        found = (self._read(-place) for place in range(1, KEPT + 1))
        return {installation.release for installation in found if installation is not None}

    def _read(self, place: int) -> Installation | None:
        names = self._names()
        if len(names) < abs(place):
            return None
        path = f"{layout.HISTORY}/{names[place]}"
        try:
            return from_json(self._box.read(path) or b"")
        except (ValueError, KeyError, TypeError) as error:
            raise BoxRefused(f"{path} is damaged; remove it, and deploy anew") from error

    def _names(self) -> list[str]:
        script = 'cd "$1" 2>/dev/null || exit 0; for f in *.json; do [ ! -e "$f" ] || echo "$f"; done'
        return sorted(self._box.run(script, layout.HISTORY, what="the history cannot be read").split())

    def _remove(self, names: list[str]) -> None:
        paths = [f"{layout.HISTORY}/{name}" for name in names]
        if paths:
            self._box.run('rm -f -- "$@"', *paths, what="the history cannot be shortened")
