"""Sweep and inventory files that nobody wrote in good faith: each is read, or told to be wrong with file and line."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddqueue.domain.inventory import Inventory
from ddqueue.domain.sweep import Sweep
from ddqueue.errors import FileError, FileProblem
from ddqueue.files.examples import NAMES, example
from ddqueue.files.inventory_file import inventory_from_text, read_inventory
from ddqueue.files.problems import MOST
from ddqueue.files.sweep_file import read_sweep, sweep_from_text

DATA = Path(__file__).parents[1] / "data" / "sweeps"
KNOWN = inventory_from_text(example("inventory.yaml"), "inventory.yaml")
FILES = [
    *(path.read_text(encoding="utf-8", errors="replace") for path in sorted(DATA.rglob("*.yaml"))),
    *(example(name) for name in NAMES),
]
GROWTH_MIB = 300
"""What one file may add to this process's peak: ruamel takes about a kilobyte for a token."""

READERS: list[Callable[[str], Sweep | Inventory]] = [
    lambda text: sweep_from_text(text, "hostile.yaml", KNOWN),
    lambda text: inventory_from_text(text, "hostile.yaml"),
]


def outcome(read: Callable[[], object]) -> object | list[FileProblem]:
    """What came out; any other error than FileError goes on and fails the test."""
    try:
        return read()
    except FileError as error:
        return error.problems


def is_read_or_refused(text: str) -> None:
    for read in READERS:
        result = outcome(lambda read=read: read(text))  # type: ignore[misc]
        if not isinstance(result, list):
            assert isinstance(result, (Sweep, Inventory))
            continue
        assert 1 <= len(result) <= MOST
        lines = text.count("\n") + 2
        for problem in result:
            assert problem.file == "hostile.yaml"
            assert 1 <= problem.line <= lines
            assert problem.problem
            assert problem.remedy


LAUGHS = "a0: &a0 [lol, lol]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 30)
)
HUGE: dict[str, str] = {
    "a billion laughs": LAUGHS,
    "laughs by merging": "a: &a {b: 1}\n" + "".join(f"c{number}: {{<<: *a}}\n" for number in range(2_000)),
    "an anchor inside itself": "&a [*a]",
    "100,000 lists in one another": "[" * 100_000,
    "100,000 mappings in one another": "{a: " * 60_000,
    "100,000 lists by dashes": "- " * 100_000,
    "keys by question marks": "? " * 100_000,
    "deeper at every line": "".join(f"{' ' * depth}a:\n" for depth in range(700)),
    "one long word": "name: " + "a" * 250_000,
    "one long key": "a" * 250_000 + ": 1",
    "one long quoted text": 'name: "' + "\\u0041" * 40_000 + '"',
    "one long number": "name: " + "9" * 250_000,
    "a quote that does not end": "name: '" + "a\n" * 100_000,
    "many keys": "".join(f"k{number}: 1\n" for number in range(4_000)),
    "one key many times": "name: x\n" * 4_000,
    "many documents": "---\n" * 60_000,
    "many directives": "%TAG ! tag:x,2000:\n" * 10_000,
    "many tags": "!!a " * 60_000,
    "many lines with tabs": "\ta\n" * 60_000,
    "a large grid": "name: x\ngrid: {" + ", ".join(f"args.a{axis}: [1, 2, 3, 4, 5]" for axis in range(60)) + "}",
    "many cells": "name: x\ncells:\n" + "  - {block_size: 8}\n" * 2_000,
    "many hosts": "hosts: [" + "rtx6000, " * 4_000 + "]",
    "too large": "# " + "x" * 300_000,
}


@pytest.mark.parametrize("name", list(HUGE))
def test_a_huge_document_takes_little_memory(name: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    is_read_or_refused(HUGE[name])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GROWTH_MIB * 1024


ODD = st.sampled_from(
    [
        *(
            "\0",
            "\\0",
            "\x1b[31m",
            "\u2028",
            "\u2029",
            "\x85",
            "\ufeff",
            "\u202e",
            "\u200b",
            "\x7f",
            "\ufffe",
            "\U0010ffff",
        ),
        *(
            '"\\ud800"',
            '"\\UFFFFFFFF"',
            '"\\x00"',
            "\u0660",
            "\u00b2",
            "\u2154",
            "\u212a",
            "e\u0301",
            "\t",
            "\r",
            "\r\n",
        ),
        *("&a", "*a", "<<: ", "!!python/object/apply:os.system ", "? ", "| ", "> ", "%YAML 1.1\n", "---\n", "...\n"),
    ]
)
"""Characters and signs that have fooled readers of YAML."""


@given(
    st.sampled_from(FILES),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), ODD | st.text(max_size=4)), max_size=4),
)
@settings(deadline=None, max_examples=150)
def test_a_real_file_with_odd_pieces_in_it(text: str, changes: list[tuple[float, int, str]]) -> None:
    for place, length, piece in changes:
        at = int(place * len(text))
        text = text[:at] + piece + text[at + length :]
    is_read_or_refused(text)


@given(st.sampled_from(FILES), st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)), max_size=3))
@settings(deadline=None, max_examples=100)
def test_a_real_file_with_its_lines_moved_and_repeated(text: str, moves: list[tuple[float, float, float]]) -> None:
    lines = text.splitlines(keepends=True)
    for first, last, to in moves:
        begin, end = sorted((int(first * len(lines)), int(last * len(lines))))
        at = int(to * len(lines))
        lines[at:at] = lines[begin : min(end, begin + 20)]
    is_read_or_refused("".join(lines))


KEYS = st.sampled_from(
    [
        *(
            "name",
            "model",
            "engine",
            "hosts",
            "parallel",
            "cells",
            "grid",
            "zip",
            "exclude",
            "measure",
            "points",
            "args",
        ),
        *(
            "env",
            "repeats",
            "coding",
            "control",
            "visits",
            "models",
            "engines",
            "path",
            "gpus",
            "gpu",
            "command",
            "borrow",
        ),
        *("settings", "drafter", "block_size", "concurrency", "context", "output", "hypothesis"),
        "out_of_distribution",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | ODD
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=5),
    max_leaves=25,
)


@given(st.dictionaries(KEYS, TREES, max_size=10))
@settings(deadline=None, max_examples=100)
def test_any_tree_under_known_keys(tree: dict[str, object]) -> None:
    is_read_or_refused(json.dumps(tree))
    is_read_or_refused(json.dumps(tree, ensure_ascii=False, indent=1))


@given(
    st.binary(max_size=400)
    | st.sampled_from([b"\xff\xfea\x00", b"\xef\xbb\xbf\xef\xbb\xbf", b"\x00" * 300, b"a: \x85\xff"])
)
@settings(deadline=None, max_examples=100)
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "hostile.yaml"
    path.write_bytes(data)
    for result in (outcome(lambda: read_sweep(path, KNOWN)), outcome(lambda: read_inventory(path))):
        assert isinstance(result, (Sweep, Inventory, list))
        if isinstance(result, list):
            assert all(problem.file == str(path) and problem.line >= 1 for problem in result)
