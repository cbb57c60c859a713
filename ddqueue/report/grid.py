"""A grid of texts, printed in four ways. Pure: takes texts, gives text."""

from __future__ import annotations

import csv
import io
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

LINE_COLUMNS = 120
"""Tables are as wide as their content; text around them is kept within this."""


@dataclass(frozen=True)
class Grid:
    """Column heads and rows of as many texts; columns named in `right` are aligned right."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()


def as_plain(grid: Grid) -> str:
    """Aligned columns for a terminal; control characters are made visible, so that stored text cannot steer it."""
    table = [[visible(text) for text in row] for row in (grid.heads, *grid.rows)]
    sizes = [[width(text) for text in row] for row in table]
    widths = [max(column) for column in zip(*sizes, strict=True)]
    lines = [_aligned(row, own, widths, grid.right) for row, own in zip(table, sizes, strict=True)]
    return "\n".join([lines[0], "  ".join("-" * size for size in widths), *lines[1:]])


def as_markdown(grid: Grid) -> str:
    """A Markdown table."""
    ruler = ["---:" if column in grid.right else "---" for column in range(len(grid.heads))]
    body = [[visible(text).replace("|", "\\|") for text in row] for row in (grid.heads, *grid.rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (body[0], ruler, *body[1:]))


def as_csv(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """RFC 4180, with plain newlines; null is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return out.getvalue().rstrip("\n")


def visible(text: str) -> str:
    """`text` in one line, with control characters written as escapes."""
    if text.isprintable():  # nothing to escape, as nearly always; one call instead of one for each character
        return text
    return "".join(
        character if unicodedata.category(character) not in ("Cc", "Cf", "Zl", "Zp") else _escaped(character)
        for character in text
    )


def wrapped(note: str) -> str:
    """A note below a table, in lines of at most LINE_COLUMNS; what follows its first line is indented."""
    return "\n".join(
        textwrap.wrap(
            visible(note), LINE_COLUMNS, subsequent_indent="     ", break_long_words=False, break_on_hyphens=False
        )
    )


def width(text: str) -> int:
    """Columns that a terminal needs for `text`."""
    beyond = () if text.isascii() else [character for character in text if not character.isascii()]
    wide = sum(unicodedata.east_asian_width(character) in ("W", "F") for character in beyond)
    combining = sum(unicodedata.combining(character) != 0 for character in beyond)
    return len(text) + wide - combining


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _aligned(row: Sequence[str], sizes: Sequence[int], widths: Sequence[int], right: frozenset[int]) -> str:
    cells = []
    for column, text in enumerate(row):
        padding = " " * (widths[column] - sizes[column])
        cells.append(padding + text if column in right else text + padding)
    return "  ".join(cells).rstrip()
