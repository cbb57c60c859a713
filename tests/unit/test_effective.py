"""What counts as the same configuration, and what as one that the server changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ddqueue.domain.configuration import Cell, Speculation
from ddqueue.engine.effective import compare, tree_settings

DATA = Path(__file__).parents[1] / "data"
REAL = json.loads((DATA / "server_info" / "dflash8.json").read_text())


def difference(requested: dict[str, Any], info: dict[str, Any]) -> dict[str, Any]:
    return dict(compare(requested, info).difference)


@pytest.mark.parametrize(
    ("asked", "effective"),
    [
        ("0.85", 0.85),
        ("8", 8),
        ("1e3", 1000),
        (True, True),
        ("/models/kimi/", "/models/kimi"),
        ("/models/../models/kimi", "/models/kimi"),
        ("dflash", "DFLASH"),
        ("auto", "triton"),
        ('{"a": 1, "b": 2}', '{"b":2,"a":1}'),
        ("1", [1, 2, 4]),
        ("none", None),
    ],
)
def test_another_way_to_write_it_is_no_difference(asked: Any, effective: Any) -> None:
    assert difference({"setting": asked}, {"setting": effective}) == {}


@pytest.mark.parametrize(
    ("asked", "effective"),
    [("0.85", 0.8), ("4", 1), (True, False), ("/models/Kimi", "/models/kimi"), ("2048", None), ("fa3", "triton")],
)
def test_a_changed_setting_is_a_difference(asked: Any, effective: Any) -> None:
    assert difference({"setting": asked}, {"setting": effective}) == {"setting": [asked, effective]}


def test_what_the_server_does_not_say_and_what_nobody_asked_is_no_difference() -> None:
    check = compare({"speculative_ddtree_budget": "8"}, {"max_running_requests": 48})
    assert check.difference == {}
    assert check.requested == {"speculative_ddtree_budget": "8"}
    assert check.effective == {"max_running_requests": 48}


def test_a_flag_by_an_older_name_is_compared_with_what_it_sets() -> None:
    info = {"speculative_dflash_block_size": None, "speculative_num_draft_tokens": 8}
    assert difference({"speculative_dflash_block_size": "8"}, info) == {}
    assert difference({"speculative_dflash_block_size": "16"}, info) == {"speculative_dflash_block_size": ["16", 8]}
    assert difference({"cuda_graph_max_bs": "32"}, REAL) == {}
    assert difference({"cuda_graph_max_bs": "32"}, {"cuda_graph_max_bs": 16}) == {"cuda_graph_max_bs": ["32", 16]}


def test_a_real_reply_confirms_what_was_asked_and_shows_what_was_changed() -> None:
    asked = {
        "speculative_algorithm": "DFLASH",
        "speculative_num_draft_tokens": "8",
        "speculative_draft_window_size": "2048",
        "speculative_eagle_topk": "4",
        "max_running_requests": "64",
    }
    assert difference(asked, REAL) == {"speculative_eagle_topk": ["4", 1], "max_running_requests": ["64", 48]}


def test_a_tree_is_compared_by_its_budget_width_and_ranks() -> None:
    asked = tree_settings(Cell("m", "e", Speculation(block_size=16, budget=32, topk=4)))
    assert asked == {
        "speculative_ddtree_budget": 32,
        "max_speculative_num_draft_tokens": 33,
        "speculative_ddtree_topk": 4,
    }
    state = {"max_speculative_num_draft_tokens": 33, "speculative_ddtree_topk": 4, "last_gen_throughput": 1.5}
    check = compare(asked, {"speculative_ddtree_budget": 32, "internal_states": [state]})
    assert check.difference == {}
    assert check.effective == {
        "speculative_ddtree_budget": 32,
        "max_speculative_num_draft_tokens": 33,
        "speculative_ddtree_topk": 4,
    }
    chain = {"internal_states": [{"max_speculative_num_draft_tokens": 16, "speculative_ddtree_topk": 8}]}
    assert difference(asked, chain) == {"max_speculative_num_draft_tokens": [33, 16], "speculative_ddtree_topk": [4, 8]}


@pytest.mark.parametrize("speculation", [None, Speculation(block_size=8), Speculation(block_size=8, topk=4)])
def test_without_a_tree_there_is_nothing_beyond_the_flags(speculation: Speculation | None) -> None:
    assert tree_settings(Cell("m", "e", speculation)) == {}


@pytest.mark.parametrize("states", [None, [], ["text"], {}, [{}]])
def test_states_in_any_form_are_taken(states: Any) -> None:
    assert compare({}, {"tp_size": 8, "internal_states": states}).effective == {"tp_size": 8}


INFO = {"tp_size": 8, "mem_fraction_static": 0.85, "port": 20001, "weight_version": "a", "max_total_num_tokens": 5000}


def a_hash(requested: dict[str, Any], info: dict[str, Any], environment: dict[str, str] | None = None) -> str:
    return compare(requested, info, environment).effective_hash


def test_two_starts_that_run_the_same_have_one_hash() -> None:
    again = INFO | {"port": 20002, "weight_version": "b", "max_total_num_tokens": 4999}
    asked, defaulted = {"mem_fraction_static": "0.85", "port": 20001}, {"port": 20002, "tp_size": "8"}
    assert a_hash(asked, INFO) == a_hash(defaulted, again)
    states = {"internal_states": [{"last_gen_throughput": 3.0}]}
    assert a_hash({}, INFO | states) == a_hash({}, INFO)


def test_what_tells_two_servers_apart_changes_the_hash() -> None:
    same = a_hash({}, INFO)
    others = [
        a_hash({}, INFO | {"mem_fraction_static": 0.8}),
        a_hash({}, INFO | {"cuda_graph_config": {"decode": {"max_bs": 32}}}),
        a_hash({}, INFO | {"internal_states": [{"speculative_ddtree_topk": 4}]}),
        # The server is silent about both: they count as asked.
        a_hash({"speculative_ddtree_budget": "8"}, INFO),
        a_hash({}, INFO, {"SGLANG_DDTREE_MAX_TOPK": "4"}),
        a_hash({}, INFO, {"SGLANG_DDTREE_MAX_TOPK": "6"}),
    ]
    assert len({same, *others}) == 1 + len(others)
