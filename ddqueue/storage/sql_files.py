"""The SQL of this package, which lies in files of its own."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def sql(name: str, folder: str = "sql") -> str:
    """The text of FOLDER/NAME.sql; parameters are written `:name`.

    Raises:
        FileNotFoundError: there is no such file.
    """
    return (_FOLDER / folder / f"{name}.sql").read_text(encoding="utf-8")
