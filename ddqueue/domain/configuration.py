"""One server configuration: speculation, parallelism, arguments, environment, and the hash that names it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ddqueue.errors import UsageError

Scalar = str | int | float | bool | None
"""A value of a server argument: true is a bare flag; false and none leave the argument out."""

HASH_LENGTH = 12


@dataclass(frozen=True, order=True)
class Parallelism:
    """How one server spreads over the GPUs of one host.

    `tp`, `ep`, `pp`, `dp` are SGLang's sizes. A server occupies tp x pp GPUs; ep and dp divide those of tp.
    """

    tp: int = 1
    ep: int = 1
    pp: int = 1
    dp: int = 1

    @property
    def gpus(self) -> int:
        """The number of GPUs the server occupies."""
        return self.tp * self.pp

    @property
    def label(self) -> str:
        """The field's short name: TP8, EP8 (tp 8, ep 8), EP4/TP8 (tp 8, ep 4), PP8; a trailing -DPn where dp > 1."""
        if self.pp > 1 and self.tp == 1:
            name = f"PP{self.pp}"
        else:
            name = f"TP{self.tp}" if self.ep == 1 else f"EP{self.ep}"
            if self.ep not in (1, self.tp):
                name += f"/TP{self.tp}"
            if self.pp > 1:
                name += f"-PP{self.pp}"
        return name if self.dp == 1 else f"{name}-DP{self.dp}"

    @classmethod
    def parse(cls, label: str, gpus: int) -> Parallelism:
        """Read TP8, EP8, EP4 or PP8 for a host of `gpus` GPUs.

        EPn means "all GPUs by tensor parallelism, experts over n of them": EP4 on eight GPUs is tp 8, ep 4.

        Raises:
            UsageError: the label is none of these.
        """
        match = re.fullmatch(r"(TP|EP|PP)([1-9][0-9]*)", label.strip().upper())
        if match is None:
            raise UsageError(f"{label!r} is not a parallelism; write TP8, EP8, EP4, PP8 or {{tp: 8, ep: 4}}")
        kind, size = match.group(1), int(match.group(2))
        if kind == "TP":
            return cls(tp=size)
        if kind == "EP":
            return cls(tp=max(gpus, size), ep=size)
        return cls(pp=size)


@dataclass(frozen=True, order=True)
class Speculation:
    """A drafter's settings.

    `block_size` counts the anchor token: block_size - 1 tokens are proposed, which is the depth limit of the tree.
    `budget` is the number of tree nodes below the root (the target verifies budget + 1 tokens); none means a chain.
    `topk` bounds the ranks tried per position; `window` is the drafter's attention window in tokens, none = all.
    """

    block_size: int
    budget: int | None = None
    topk: int | None = None
    window: int | None = None

    @property
    def depth_limit(self) -> int:
        """The largest number of draft tokens one verify can accept."""
        return self.block_size - 1


@dataclass(frozen=True)
class Cell:
    """One server configuration, independent of the host: what is compared between hosts.

    Parallelism is not part of it, so that EP8 on one box can be paired with TP8 on the other.
    """

    model: str
    engine: str
    speculation: Speculation | None = None
    args: Mapping[str, Scalar] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    def canonical(self) -> dict[str, Any]:
        """The cell as plain JSON values; two cells that configure the same server give equal values."""
        spec = self.speculation
        return {
            "model": self.model,
            "engine": self.engine,
            "speculation": None
            if spec is None
            else {
                "block_size": spec.block_size,
                "budget": spec.budget,
                "topk": spec.topk,
                "window": spec.window,
            },
            "args": {name: _canonical_number(self.args[name]) for name in sorted(self.args)},
            "env": {name: self.env[name] for name in sorted(self.env)},
        }

    @property
    def hash(self) -> str:
        """The first 12 hex digits of the SHA-256 of the canonical form."""
        text = json.dumps(self.canonical(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]

    @classmethod
    def from_canonical(cls, value: Mapping[str, Any]) -> Cell:
        """Rebuild a cell from `canonical()`."""
        spec = value["speculation"]
        return cls(
            model=value["model"],
            engine=value["engine"],
            speculation=None if spec is None else Speculation(**spec),
            args=dict(value["args"]),
            env=dict(value["env"]),
        )

    @property
    def is_baseline(self) -> bool:
        """True when neither ddqueue's settings nor a server argument asks for speculation."""
        return self.speculation is None and not any(name.startswith("speculative-") for name in self.args)

    def label(self, trained_block_size: int | None = None, common: Cell | None = None) -> str:
        """The name people use in tables: `b8 t4 w2048`, `bs16 b32 t4 w2048`, `baseline`.

        The block size is said only where it differs from the drafter's trained one (or that is unknown), an argument
        or variable only where it differs from the sweep's `common` cell.
        """
        words = []
        if self.speculation is not None:
            spec = self.speculation
            if spec.budget is None or spec.block_size != trained_block_size:
                words.append(f"bs{spec.block_size}")
            if spec.budget is not None:
                words.append(f"b{spec.budget}")
            if spec.topk is not None:
                words.append(f"t{spec.topk}")
            words.append("none" if spec.window is None else f"w{spec.window}")
        elif self.is_baseline:
            words.append("baseline")
        for mine, shared in (
            (self.args, common.args if common else {}),
            (self.env, common.env if common else {}),
        ):
            words += [f"{name}={_word(mine[name])}" for name in sorted(mine) if mine[name] != shared.get(name)]
        return " ".join(words) or "as given"


def _canonical_number(value: Scalar) -> Scalar:
    """1.0 and 1 start the same server."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def _word(value: Scalar) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
