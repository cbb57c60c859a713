"""Leaving a cell early, where its sweep allows it: because another one is clearly faster at every point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ddqueue.domain.dominance import Rival, dominated
from ddqueue.domain.queueing import Claim
from ddqueue.domain.sweep import Point
from ddqueue.ports import AttemptStore


class GivenUp(Exception):
    """The attempt measured what it needed to see that its cell cannot win; the text says who is faster, and by what."""


@dataclass
class Contest:
    """One cell against those that were measured before it. They are asked for once: on this host nothing else runs."""

    store: AttemptStore
    claim: Claim
    _rivals: list[Rival] | None = field(default=None, init=False)

    def check(self, seen: Mapping[Point, Sequence[float]]) -> None:
        """Raises GivenUp when the sweep allows it and a rival is ahead at every point; `seen` holds tok/s by point."""
        if not self.claim.measure.prune:
            return
        if self._rivals is None:
            self._rivals = self.store.rivals(self.claim)
        found = dominated(seen, self._rivals)
        if found is not None:
            raise GivenUp(found.words)
