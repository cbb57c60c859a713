"""Sweep files for attempts that last as long as a test needs."""

from __future__ import annotations

from collections.abc import Sequence

from installation import sweep_text

_POINT = "{concurrency: 1, context: 60, output: 256}"
"""One or two seconds a repeat."""


def long_sweep(name: str, hosts: Sequence[str], repeats: int, cells: int = 1) -> str:
    """`cells` jobs for each host, each of which measures one point `repeats` times."""
    texts = [f"{{block_size: 8, budget: {4 * number}, topk: 4, window: 2048}}" for number in range(1, cells + 1)]
    text = sweep_text(name, hosts=hosts, cells=texts, points=[_POINT])
    return text.replace("{min: 3, max: 3}", f"{{min: {repeats}, max: {repeats}}}")
