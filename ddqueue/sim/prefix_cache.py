"""Which prompts the engine has seen: the radix cache, by blocks of tokens."""

from __future__ import annotations

from collections.abc import Sequence

BLOCK_TOKENS = 32


class PrefixCache:
    """Remembers prompts up to `capacity_tokens`; the oldest go first."""

    def __init__(self, capacity_tokens: int) -> None:
        self._capacity_tokens = capacity_tokens
        self._seen: dict[int, int] = {}
        self._tokens = 0

    def cached_tokens(self, ids: Sequence[int]) -> int:
        """How many leading tokens need no prefill: at most all but one, whose logits are needed; in whole blocks, or
        all of them for a prompt seen in full."""
        return min(self._longest_seen(ids), len(ids) - 1)

    def add(self, ids: Sequence[int]) -> None:
        """Remember a prompt."""
        for key, size in _blocks(ids):
            if key not in self._seen:
                self._seen[key] = size
                self._tokens += size
        while self._tokens > self._capacity_tokens:
            self._tokens -= self._seen.pop(next(iter(self._seen)))

    def clear(self) -> None:
        self._seen.clear()
        self._tokens = 0

    def _longest_seen(self, ids: Sequence[int]) -> int:
        found = 0
        for key, size in _blocks(ids):
            if key not in self._seen:
                break
            found += size
        return found


def _blocks(ids: Sequence[int]) -> list[tuple[int, int]]:
    """(hash of everything up to the block's end, tokens of the block), in order."""
    key, blocks = 0, []
    for start in range(0, len(ids), BLOCK_TOKENS):
        block = tuple(ids[start : start + BLOCK_TOKENS])
        key = hash((key, block))
        blocks.append((key, len(block)))
    return blocks
