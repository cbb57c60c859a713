"""Results that somebody measured by hand: what their table says, and nothing more."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ddqueue.domain.configuration import Cell, Parallelism, Speculation
from ddqueue.domain.inventory import EngineProfile, Model
from ddqueue.domain.sweep import Point, SweepCell
from ddqueue.errors import UsageError

_SIZE = re.compile(r"(bs|b|t|w)([1-9][0-9]{0,6})")
_FIELDS = {"bs": "block_size", "b": "budget", "t": "topk", "w": "window"}


@dataclass(frozen=True)
class HandMeasuredRow:
    """One row of the table: a configuration on a host.

    `throughputs_tok_s` holds what is written for each point: output tokens per second, one value, or the two ends of a
    range such as 145-170. `acceptance_length` is that of the whole row, tokens per verify; `coding` what it says of
    coding checks, `4/5` or `ok`. `written` keeps every field as it stands in the file, by its column's head.
    """

    line: int
    cell: SweepCell
    host: str
    parallelism: Parallelism
    throughputs_tok_s: Mapping[Point, tuple[float, ...]]
    acceptance_length: float | None = None
    coding: str | None = None
    written: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HandMeasured:
    """A whole file of them. `sha256` is of its bytes; `points` are its columns, in order."""

    file_name: str
    file_text: str
    sha256: str
    points: tuple[Point, ...]
    rows: tuple[HandMeasuredRow, ...]


@dataclass(frozen=True)
class ImportedBy:
    """Who brought it in, and what they know of it: `by` is user@machine; `measured_on` and `note` are their words."""

    by: str
    measured_on: str | None = None
    note: str | None = None


def cell_named(label: str, model: Model, engine: EngineProfile) -> SweepCell:
    """The configuration that people call `b8 t4 w2048`, `bs16 b32 t4 none`, `b4` or `baseline`, in any order of words.

    A block size that is not said is the one the drafter was trained for.

    Raises:
        UsageError: the label is none of these.
    """
    words = label.split()
    if words == ["baseline"]:
        return SweepCell(Cell(model.name, engine.name), "baseline")
    sizes: dict[str, int] = {}
    for word in words:
        match = _SIZE.fullmatch(word)
        name = _FIELDS[match[1]] if match else "window" if word == "none" else None
        if name is None or name in sizes:
            raise UsageError(f"{word!r} says nothing known, or a second time")
        sizes[name] = int(match[2]) if match else 0
    trained = model.drafter.block_size if model.drafter else None
    block_size = sizes.get("block_size", trained)
    if not sizes or block_size is None:
        raise UsageError("no block size is said, and that of the drafter is not known")
    spec = Speculation(block_size, sizes.get("budget"), sizes.get("topk"), sizes.get("window") or None)
    cell = Cell(model.name, engine.name, spec)
    return SweepCell(cell, cell.label(trained), trained is not None and block_size != trained)
