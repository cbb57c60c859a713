"""The geometry of a DDTree: which drafts a budget buys.

Source: Ringel & Romano, arXiv 2604.12989. From one pass of the drafter, which ranks tokens for every depth, the tree
grows best-first: of all nodes next to the tree, the one with the largest cumulative log-probability joins.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

ROOT = -1
"""The parent of a node at depth 1: the bonus token, which is no draft and costs no budget."""


@dataclass(frozen=True)
class Tree:
    """The drafts of one verify, in the order they joined; all tuples have one entry a node.

    `parents[i]` is the index of node i's parent, `ROOT` at depth 1; `depths[i]` counts from 1; `ranks[i]` is the node's
    place among the drafter's candidates for its depth, from 0; `log_probs[i]` is cumulative along the path.
    """

    parents: tuple[int, ...] = ()
    depths: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def verified_tokens(self) -> int:
        """How many tokens the target verifies in one pass: the nodes and the root."""
        return len(self) + 1

    @property
    def is_chain(self) -> bool:
        """Whether no node has a sibling."""
        return len(set(self.parents)) == len(self.parents)


def grow(log_probs: Sequence[Sequence[float]], budget: int, topk: int, depth_limit: int) -> Tree:
    """The tree of at most `budget` nodes.

    `log_probs[d][r]` is the log-probability of the candidate of rank r at depth d + 1; every row falls with the rank.
    At most `topk` ranks of a row and `depth_limit` rows (block size - 1) are used. Ties go to the shallower node, then
    to the one seen first.

    Raises:
        ValueError: a size is negative, or a row is not sorted, holds a NaN or a value above 0.
    """
    if min(budget, topk, depth_limit) < 0:
        raise ValueError("budget, topk and depth_limit cannot be negative")
    rows = [list(row[:topk]) for row in log_probs[:depth_limit]]
    for row in rows:
        if any(math.isnan(value) or value > 0 for value in row) or row != sorted(row, reverse=True):
            raise ValueError("log-probabilities must be at most 0 and fall with the rank")

    parents: list[int] = []
    depths: list[int] = []
    ranks: list[int] = []
    totals: list[float] = []
    heap: list[tuple[float, int, int, int, int]] = []
    """(-cumulative log-probability, depth, order seen, parent, rank): the order decides before parent and rank."""
    seen = 0

    def push(parent: int, depth: int, rank: int) -> None:
        nonlocal seen
        if depth <= len(rows) and rank < len(rows[depth - 1]):
            above = totals[parent] if parent != ROOT else 0.0
            heapq.heappush(heap, (-(above + rows[depth - 1][rank]), depth, seen, parent, rank))
            seen += 1

    push(ROOT, 1, 0)
    while heap and len(parents) < budget:
        cost, depth, _, parent, rank = heapq.heappop(heap)
        parents.append(parent)
        depths.append(depth)
        ranks.append(rank)
        totals.append(-cost)
        push(parent, depth, rank + 1)
        push(len(parents) - 1, depth + 1, 0)
    return Tree(tuple(parents), tuple(depths), tuple(ranks), tuple(totals))


def is_chain_budget(budget: int, depth_limit: int) -> bool:
    """Whether the budget has room for a chain's worth of nodes only: every branch is paid for with depth."""
    return budget <= depth_limit
