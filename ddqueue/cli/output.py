"""How commands print: JSON for programs, plain tables for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from ddqueue.report.grid import Grid, as_plain


def as_json_text(value: Any) -> str:
    """One JSON document; times in ISO 8601."""
    return json.dumps(value, indent=2, default=_plain, ensure_ascii=False)


def print_json(value: Any) -> None:
    """Print `as_json_text`."""
    click.echo(as_json_text(value))


def print_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A titled table as wide as its content; nothing is cut, whatever the terminal's width."""
    click.echo(click.style(title, bold=True))
    click.echo(as_plain(Grid(tuple(heads), tuple(tuple(str(cell) for cell in row) for row in rows))))


def duration(seconds: float | None) -> str:
    """`42 s`, `3 min 05 s`, `2 h 07 min`; `-` when unknown."""
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)
