"""The tree's geometry, against brute force on small ones."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddqueue.domain.tree import ROOT, Tree, grow, is_chain_budget

ROWS = st.lists(
    st.lists(st.floats(-20, 0, allow_nan=False), min_size=0, max_size=3).map(lambda row: sorted(row, reverse=True)),
    max_size=4,
)
SIZES = {"budget": st.integers(0, 60), "topk": st.integers(0, 3), "depth_limit": st.integers(0, 5)}


def all_totals(rows: list[list[float]], topk: int, depth_limit: int) -> list[float]:
    """The cumulative log-probability of every node of the full tree, best first."""
    level, found = [0.0], []
    for row in rows[:depth_limit]:
        level = [above + value for above in level for value in row[:topk]]
        found += level
    return sorted(found, reverse=True)


@given(ROWS, st.fixed_dictionaries(SIZES))
def test_the_nodes_are_the_most_probable_ones_there_are(rows: list[list[float]], sizes: dict[str, int]) -> None:
    tree = grow(rows, **sizes)
    available = all_totals(rows, sizes["topk"], sizes["depth_limit"])
    assert len(tree) == min(sizes["budget"], len(available))
    assert list(tree.log_probs) == available[: len(tree)]
    assert tree.verified_tokens == len(tree) + 1


@given(ROWS, st.fixed_dictionaries(SIZES))
def test_every_node_joins_after_its_parent_and_its_better_siblings(
    rows: list[list[float]], sizes: dict[str, int]
) -> None:
    tree = grow(rows, **sizes)
    seen: set[tuple[int, int]] = set()
    for index, (parent, depth, rank) in enumerate(zip(tree.parents, tree.depths, tree.ranks, strict=True)):
        assert parent < index
        assert depth == (1 if parent == ROOT else tree.depths[parent] + 1)
        assert depth <= sizes["depth_limit"]
        assert rank < sizes["topk"]
        assert rank == 0 or (parent, rank - 1) in seen
        assert (parent, rank) not in seen
        seen.add((parent, rank))
        above = 0.0 if parent == ROOT else tree.log_probs[parent]
        assert tree.log_probs[index] == above + rows[depth - 1][rank]


@given(ROWS, st.fixed_dictionaries(SIZES))
def test_a_larger_budget_only_adds_nodes(rows: list[list[float]], sizes: dict[str, int]) -> None:
    small, large = grow(rows, **sizes), grow(rows, **{**sizes, "budget": sizes["budget"] + 1})
    assert large.parents[: len(small)] == small.parents
    assert large.ranks[: len(small)] == small.ranks


def test_a_tree_worked_out_by_hand() -> None:
    rows = [[math.log(0.6), math.log(0.3)], [math.log(0.5), math.log(0.4)]]
    tree = grow(rows, budget=5, topk=2, depth_limit=7)
    # 0.6, then its sibling 0.3 and its child 0.6 x 0.5 = 0.30 in whichever order rounding gives, then 0.24, 0.15.
    assert [round(math.exp(total), 2) for total in tree.log_probs] == [0.6, 0.3, 0.3, 0.24, 0.15]
    assert sorted(zip(tree.depths, tree.ranks, strict=True)) == [(1, 0), (1, 1), (2, 0), (2, 0), (2, 1)]
    assert not tree.is_chain


def test_ties_go_to_the_shallower_node() -> None:
    assert grow([[0.0, 0.0], [0.0, 0.0]], budget=3, topk=2, depth_limit=2).depths == (1, 1, 2)


def test_a_sure_drafter_gets_a_chain_from_a_chain_budget() -> None:
    tree = grow([[-0.01, -5.0]] * 7, budget=7, topk=4, depth_limit=7)
    assert tree.is_chain
    assert tree.depths == (1, 2, 3, 4, 5, 6, 7)
    assert not grow([[-0.01, -5.0]] * 7, budget=8, topk=4, depth_limit=7).is_chain


def test_nothing_to_grow() -> None:
    assert grow([], budget=8, topk=4, depth_limit=7) == Tree()
    assert grow([[0.0]], budget=0, topk=4, depth_limit=7) == Tree()


@pytest.mark.parametrize("row", [[-2.0, -1.0], [0.5], [math.nan], [-1.0, math.nan]])
def test_a_row_that_is_no_ranking_of_log_probabilities_is_refused(row: list[float]) -> None:
    with pytest.raises(ValueError, match="fall with the rank"):
        grow([row], budget=1, topk=4, depth_limit=1)


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        grow([], budget=-1, topk=4, depth_limit=7)


def test_a_budget_within_the_depth_limit_has_room_for_a_chain_only() -> None:
    assert is_chain_budget(7, 7)
    assert is_chain_budget(4, 7)
    assert not is_chain_budget(8, 7)
