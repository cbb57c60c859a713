"""The synthetic drafter: its tree is DDTree's, and acceptance comes out of it."""

from __future__ import annotations

import math
from random import Random

import pytest

from ddqueue.domain.tree import ROOT, grow
from ddqueue.sim.drafter import Drafter, accepted_in_tree

VERIFIES = 6000


def acceptance_length(drafter: Drafter, seed: int = 1) -> float:
    random = Random(seed)
    return 1 + sum(drafter.accepted(random) for _ in range(VERIFIES)) / VERIFIES


def test_it_walks_the_tree_that_the_domain_grows() -> None:
    random = Random(7)
    depths_seen = set()
    for _ in range(2000):
        depth_limit, topk, budget = random.randint(1, 15), random.randint(1, 6), random.randint(1, 32)
        confidences = [random.uniform(0.05, 0.98) for _ in range(depth_limit)]
        true_ranks = [random.choice((0, 0, 0, 1, 2, 7)) for _ in range(depth_limit)]
        log_probs = [[math.log(one) + rank * math.log1p(-one) for rank in range(topk)] for one in confidences]
        tree = grow(log_probs, budget, topk, depth_limit)
        children = {
            (parent, rank): node for node, (parent, rank) in enumerate(zip(tree.parents, tree.ranks, strict=True))
        }
        node, accepted = ROOT, 0
        while accepted < depth_limit and (node, true_ranks[accepted]) in children:
            node = children[(node, true_ranks[accepted])]
            accepted += 1
        assert accepted_in_tree(confidences, true_ranks, budget, topk) == accepted
        depths_seen.add(accepted)
    assert depths_seen >= {0, 1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize(("budget", "topk", "measured"), [(4, 4, 3.65), (8, 4, 4.51), (12, 6, 4.81), (16, 4, 4.91)])
def test_acceptance_is_that_of_the_sweep_done_by_hand(budget: int, topk: int, measured: float) -> None:
    assert acceptance_length(Drafter(8, 8, budget, topk)) == pytest.approx(measured, abs=0.15)


def test_acceptance_rises_with_the_budget_and_never_passes_the_depth_limit() -> None:
    lengths = [acceptance_length(Drafter(8, 8, budget, 4)) for budget in (4, 8, 16, 32)]
    assert lengths == sorted(lengths)
    random = Random(3)
    assert max(Drafter(8, 8, 64, 4).accepted(random) for _ in range(VERIFIES)) == 7


def test_a_budget_of_the_depth_limit_is_at_best_a_chain_of_that_depth() -> None:
    random = Random(3)
    assert max(Drafter(8, 8, 4, 4).accepted(random) for _ in range(VERIFIES)) == 4


def test_a_block_beyond_the_trained_one_pays_at_every_depth() -> None:
    """A real pair trained for 8 accepted 3.2 tokens at block 8 and 2.1 at block 16, as a chain."""
    trained, beyond = Drafter(8, 8), Drafter(16, 8)
    assert not trained.out_of_distribution
    assert beyond.out_of_distribution
    assert acceptance_length(beyond) == pytest.approx(2.1, abs=0.25)
    survivors: dict[Drafter, list[int]] = {}
    for drafter in (trained, beyond):
        random = Random(2)
        accepted = [drafter.accepted(random) for _ in range(VERIFIES)]
        survivors[drafter] = [sum(one >= depth for one in accepted) for depth in range(1, 5)]
    assert all(far < near for far, near in zip(survivors[beyond], survivors[trained], strict=True))
    assert acceptance_length(Drafter(16, 8, 16, 4)) < 0.65 * acceptance_length(Drafter(8, 8, 16, 4))


def test_a_block_shorter_than_the_trained_one_only_limits_the_depth() -> None:
    short = Drafter(4, 8, 8, 4)
    assert not short.out_of_distribution
    random = Random(1)
    assert max(short.accepted(random) for _ in range(VERIFIES)) == 3
    assert acceptance_length(Drafter(4, 8)) == pytest.approx(acceptance_length(Drafter(4, 4)), abs=1e-9)


@pytest.mark.parametrize(("budget", "verified"), [(None, 8), (4, 5), (16, 17)])
def test_the_target_verifies_the_block_or_the_nodes_and_the_root(budget: int | None, verified: int) -> None:
    assert Drafter(8, 8, budget, 4).verify_tokens == verified
    assert Drafter(8, 8, budget, 4).proposed_tokens == verified - 1
