"""A synthetic drafter: acceptance is not prescribed, it comes out of a best-first tree walked by the true tokens.

For each position of a block the drafter has a confidence p in its first choice, drawn from a Beta distribution whose
mean falls with depth; it gives its r-th choice the probability p (1 - p)^r, and the true token's rank is drawn from
just that. The constants make trees of 4, 8, 12 and 16 nodes (topk 4, 4, 6, 4) accept 3.67, 4.43, 4.76 and 4.95
tokens per verify; the hand-made sweep this simulator is fitted to had 3.65, 4.51, 4.81 and 4.91.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from random import Random

FIRST_MEAN = 0.910
"""Mean confidence at depth 1."""
DECAY = 0.9115
"""Factor on the mean for each further depth."""
CONCENTRATION = 0.88
"""alpha + beta of the Beta distribution: below 1, most confidences lie near 0 or 1."""

UNTRAINED_FACTORS = (0.92, 0.32, 0.70, 0.22)
"""What is left of the chance of being right, by depth (the last for all deeper ones), when the block is longer than the
trained one: conditional acceptance of a real pair, trained for 8, at block 16 over that at block 8. It pays at every
depth, and stays as confident as before."""

_LOWEST, _HIGHEST = 1e-3, 1 - 1e-4


class Drafter:
    """Drafts blocks of `block_size` (the anchor included), as a chain (`budget` none) or a tree of `budget` nodes.

    `topk` bounds the ranks tried per position; `trained_block_size` is the block the drafter was trained for. A
    shorter block only limits the depth; a longer one is out of distribution.
    """

    def __init__(self, block_size: int, trained_block_size: int, budget: int | None = None, topk: int = 1) -> None:
        self.block_size = block_size
        self.budget = budget
        self.topk = topk
        self.depth_limit = block_size - 1
        self.out_of_distribution = block_size > trained_block_size
        means = [FIRST_MEAN * DECAY**depth for depth in range(self.depth_limit)]
        self._shapes = [(mean * CONCENTRATION, (1 - mean) * CONCENTRATION) for mean in means]
        last = len(UNTRAINED_FACTORS) - 1
        self._truth = [
            UNTRAINED_FACTORS[min(depth, last)] if self.out_of_distribution else 1.0 for depth in range(len(means))
        ]

    @property
    def verify_tokens(self) -> int:
        """Tokens the target verifies per step and request."""
        return self.block_size if self.budget is None else self.budget + 1

    @property
    def proposed_tokens(self) -> int:
        """Draft tokens per step and request."""
        return self.verify_tokens - 1

    def accepted(self, random: Random) -> int:
        """Draft one block and verify it: the number of correct drafts, 0 to block_size - 1."""
        confidences = [min(max(random.betavariate(alpha, beta), _LOWEST), _HIGHEST) for alpha, beta in self._shapes]
        true_ranks = [
            int(math.log(1.0 - random.random()) / math.log1p(-confidence * truth))
            for confidence, truth in zip(confidences, self._truth, strict=True)
        ]
        if self.budget is None:
            return next((depth for depth, rank in enumerate(true_ranks) if rank), self.depth_limit)
        return accepted_in_tree(confidences, true_ranks, self.budget, self.topk)


def accepted_in_tree(confidences: Sequence[float], true_ranks: Sequence[int], budget: int, topk: int) -> int:
    """How deep the true tokens stay inside the best-first tree of `budget` nodes (DDTree, arXiv 2604.12989).

    The tree is grown and walked in one pass, because this runs for every request of every step; a test holds it equal
    to ddqueue.domain.tree.

    Args:
        confidences: the probability of rank 0, one per depth; rank r has confidence (1 - confidence)^r.
        true_ranks: the true token's rank, one per depth.
    """
    first = [-math.log(confidence) for confidence in confidences]
    further = [-math.log1p(-confidence) for confidence in confidences]
    deepest = len(confidences) - 1
    accepted = 0
    heap = [(first[0], 0, 0, True)] if first else []
    for _ in range(budget):
        if not heap:
            break
        cost, depth, rank, parent_is_true = heapq.heappop(heap)
        is_true = parent_is_true and rank == true_ranks[depth]
        if is_true:
            accepted = depth + 1
        if rank + 1 < topk:
            heapq.heappush(heap, (cost + further[depth], depth, rank + 1, parent_is_true))
        if depth < deepest:
            heapq.heappush(heap, (cost + first[depth + 1], depth + 1, 0, is_true))
    return accepted
