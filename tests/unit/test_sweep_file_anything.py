"""Whatever lies in a sweep file: a sweep, or errors with their places; never anything else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddqueue.domain.sweep import Sweep
from ddqueue.errors import FileError, FileProblem
from ddqueue.files.examples import example
from ddqueue.files.inventory_file import inventory_from_text
from ddqueue.files.sweep_file import KEYS, read_sweep, sweep_from_text

ROOT = Path(__file__).parents[2]
GOOD = ROOT / "tests/data/sweeps/good"
REAL = inventory_from_text(example("inventory.yaml"), "inventory.yaml")


def outcome(read: Callable[[], Sweep]) -> Sweep | list[FileProblem]:
    """What came out; any error but FileError goes on and fails the test."""
    try:
        return read()
    except FileError as error:
        return error.problems


def check_outcome(result: Sweep | list[FileProblem]) -> None:
    if isinstance(result, Sweep):
        assert result.cells
        assert len({one.cell.hash for one in result.cells}) == len(result.cells)
    else:
        assert result
        assert all(problem.line >= 1 and problem.problem and problem.remedy for problem in result)
        assert len(set(result)) == len(result)


@given(st.text(max_size=200))
@settings(deadline=None)
def test_any_text_gives_a_sweep_or_a_file_error(text: str) -> None:
    check_outcome(outcome(lambda: sweep_from_text(text, "fuzz.yaml", REAL)))


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_any_bytes_give_a_sweep_or_a_file_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(data)
    check_outcome(outcome(lambda: read_sweep(path, REAL)))


WORDS = st.sampled_from(
    [
        *("~", "none", "null", "true", "off", "8", "16", "-1", "'8'", "1e3", "1e999", ".nan", ".inf", "3%", "1,32"),
        *("rtx6000", "TP8", "EP0", "kimi-k2.6", "core5", "sglang-ddtree", "sim", "refuse", "allow"),
        *("[]", "{}", "[8,8]", "[[8]]", "{tp: 8}", "{a: 1}", "&a", "*a", "!!int", "<<"),
    ]
)
AXES = ["speculation", "block_size", "budget", "topk", "window", "args.x", "args.tp-size", "env.X", "args.", "env.1"]
FLOW = st.dictionaries(st.sampled_from([*AXES, "min", "max", "concurrency"]), WORDS, max_size=5).map(
    lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs.items()) + "}"
)
LISTED = st.lists(FLOW, max_size=4).map(lambda cells: f"[{', '.join(cells)}]")
POINTS = st.tuples(
    st.fixed_dictionaries({"concurrency": WORDS, "context": WORDS, "output": WORDS}).map(
        lambda pairs: ", ".join(f"{key}: {value}" for key, value in pairs.items())
    ),
    WORDS,
    WORDS | FLOW | FLOW.map(lambda cell: f"{{cell: {cell}, every: 3}}"),
).map(lambda said: f"{{points: [{{{said[0]}}}], visits: {said[1]}, control: {said[2]}}}")
VALUES = {
    **dict.fromkeys(KEYS, WORDS),
    "cells": LISTED,
    "exclude": LISTED,
    "grid": FLOW,
    "zip": FLOW,
    "measure": POINTS,
}


@given(st.fixed_dictionaries({}, optional={key: value | WORDS for key, value in VALUES.items()}))
@settings(deadline=None, max_examples=300)
def test_any_values_under_the_known_keys_give_a_sweep_or_a_file_error(values: dict[str, str]) -> None:
    base = {"name": "t", "model": "kimi-k2.6", "engine": "sglang-ddtree", "hosts": "rtx6000", "parallel": "[TP8]"}
    base["measure"] = "{points: [{concurrency: 1, context: 60, output: 16}]}"
    text = "".join(f"{key}: {value}\n" for key, value in {**base, **values}.items())
    check_outcome(outcome(lambda: sweep_from_text(text, "fuzz.yaml", REAL)))


@given(st.data())
@settings(deadline=None)
def test_a_shipped_file_with_one_piece_changed_gives_a_sweep_or_a_file_error(data: st.DataObject) -> None:
    text = example("example.yaml")
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 20))
    piece = data.draw(st.text(max_size=5) | WORDS)
    changed = text[:start] + piece + text[start + length :]
    check_outcome(outcome(lambda: sweep_from_text(changed, "fuzz.yaml", REAL)))
