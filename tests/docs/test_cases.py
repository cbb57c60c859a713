"""The tests that docs/cases.md names exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "cases.md"


def test_every_fault_is_held_by_a_test_that_exists() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and not line.startswith("| what")]
    rows = [row for row in rows if not row.startswith("| ---")]
    assert len(rows) >= 29
    missing = []
    for row in rows:
        named = re.findall(r"`([a-z_/]+\.py)::(test_\w+)`", row)
        assert named, f"no test: {row}"
        missing += [f"{file}::{test}" for file, test in named if test not in names_in(TESTS / file)]
    assert missing == []


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text()) if path.is_file() else ast.Module([], [])
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
