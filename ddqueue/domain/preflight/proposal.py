"""What would be started, as the rules look at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ddqueue.domain.configuration import Parallelism, Speculation
from ddqueue.domain.sweep import Point

BLOCK_DRAFTERS = frozenset({"DFLASH", "DDTREE"})
"""Algorithms that draft a whole block at once."""


@dataclass(frozen=True)
class Proposal:
    """One server before it is started.

    `arguments` are those of its command line, by name without the leading dashes, "" for a bare flag; `gpus` is what
    the host has; `trained_block_size` and `context_length` are what the inventory says of drafter and model.
    """

    parallelism: Parallelism
    gpus: int
    speculation: Speculation | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    points: tuple[Point, ...] = ()
    trained_block_size: int | None = None
    context_length: int | None = None

    @property
    def algorithm(self) -> str | None:
        """The speculative algorithm in capitals; None without one."""
        return self.arguments.get("speculative-algorithm", "").upper() or None

    @property
    def attention_ranks(self) -> int:
        """Over how many GPUs the attention heads are split: tp, less what dp attention and context parallelism take."""
        shares = self.number("attn-cp-size", 1)
        if "enable-dp-attention" in self.arguments:
            shares *= self.parallelism.dp
        return max(1, self.parallelism.tp // shares)

    @property
    def expert_ranks(self) -> int:
        """Over how many groups of GPUs the experts are split. An all-to-all backend makes SGLang set ep to tp."""
        if self.arguments.get("moe-a2a-backend", "none") != "none":
            return self.parallelism.tp
        return self.parallelism.ep

    def number(self, name: str, default: int) -> int:
        """A positive whole number on the command line; `default` where it is not there or is none."""
        text = self.arguments.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text) else default


def arguments_of(words: Sequence[str]) -> dict[str, str]:
    """The arguments on a command line: `--tp-size 8` and `--tp-size=8` give tp-size "8", a bare flag gives ""."""
    found: dict[str, str] = {}
    for index, word in enumerate(words):
        if not word.startswith("--") or word == "--":
            continue
        name, equals, value = word[2:].partition("=")
        if not equals and index + 1 < len(words) and not words[index + 1].startswith("--"):
            value = words[index + 1]
        found[name] = value
    return found
