"""The questions of docs/sql.md, each with its query, as tests and benchmarks run them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

DOCUMENT = Path(__file__).parents[1] / "docs" / "sql.md"

_QUESTION = re.compile(r"^## (\d+)\. (.+)\n\n```sql\n((?:(?!```).*\n)+)```", re.MULTILINE)


@dataclass(frozen=True)
class Question:
    number: int
    title: str
    query: str


def questions() -> list[Question]:
    """In the document's order."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return [Question(int(number), title, query) for number, title, query in _QUESTION.findall(text)]
