"""What was asked against what the server says it runs. SGLang changes some settings with no more than a warning."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping
from typing import Any

from ddqueue.domain.configuration import Cell, Scalar
from ddqueue.ports import ConfigurationCheck

_INTERNAL_STATES = "internal_states"

_FROM_INTERNAL_STATE = ("speculative_ddtree_topk", "max_speculative_num_draft_tokens")
"""Settings that only a scheduler's state tells: the first one is set by the environment, the second one is derived, and
for a tree it is the width of one verify."""

_OTHER_NAMES: Mapping[str, str] = {
    "model": "model_path",
    "tp": "tp_size",
    "tensor_parallel_size": "tp_size",
    "ep": "ep_size",
    "expert_parallel_size": "ep_size",
    "pipeline_parallel_size": "pp_size",
    "data_parallel_size": "dp_size",
    "cuda_graph_max_bs": "cuda_graph_max_bs_decode",
    "speculative_dflash_block_size": "speculative_num_draft_tokens",
    "speculative_dflash_draft_window_size": "speculative_draft_window_size",
}
"""Flags that set a setting of another name."""

_OF_ONE_START = frozenset(
    {
        *("port", "nccl_port", "dist_init_addr", "weight_version", "status", "kv_events", "startup_time"),
        # What the memory that happened to be free allowed.
        *("max_total_num_tokens", "max_req_input_len"),
    }
)
"""Reported values that differ between two starts of the same configuration."""


def tree_settings(cell: Cell) -> dict[str, Scalar]:
    """What a cell with a tree asks for beyond its flags, by the names under which a server reports it.

    The target verifies budget + 1 tokens: every node and the root. A build may be told the budget in any way, or not
    report it; then it cannot be confirmed.
    """
    spec = cell.speculation
    if spec is None or spec.budget is None:
        return {}
    asked: dict[str, Scalar] = {
        "speculative_ddtree_budget": spec.budget,
        "max_speculative_num_draft_tokens": spec.budget + 1,
    }
    return asked if spec.topk is None else asked | {"speculative_ddtree_topk": spec.topk}


def compare(
    requested: Mapping[str, Scalar], info: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> ConfigurationCheck:
    """Compare the settings asked for with `GET /server_info`; `environment` is what the profile and the cell set.

    A setting the server does not report cannot be confirmed and is no difference; the requested values keep it.
    """
    effective = _effective(info)
    difference = {
        name: [asked, effective[_reported_as(name, effective)]]
        for name, asked in requested.items()
        if _reported_as(name, effective) in effective and not _same(asked, effective[_reported_as(name, effective)])
    }
    return ConfigurationCheck(
        dict(requested),
        {name: value for name, value in effective.items() if _is_plain(value)},
        difference,
        _hash(requested, effective, environment or {}),
    )


def _effective(info: Mapping[str, Any]) -> dict[str, Any]:
    states = info.get(_INTERNAL_STATES)
    state = states[0] if isinstance(states, list) and states and isinstance(states[0], dict) else {}
    told = {name: state[name] for name in _FROM_INTERNAL_STATE if state.get(name) is not None}
    return told | {name: value for name, value in info.items() if name != _INTERNAL_STATES}


def _reported_as(name: str, effective: Mapping[str, Any]) -> str:
    """The name under which the server reports a setting: an old name that it still lists is empty."""
    other = _OTHER_NAMES.get(name)
    return other if other is not None and other in effective and effective.get(name) is None else name


def _same(asked: Scalar, effective: Any) -> bool:
    """Whether the server runs what was asked, in whatever way it writes that down."""
    if not _is_plain(effective) or asked == "auto":
        # A list or an object was said to the server in another form; "auto" leaves the choice to the server.
        return True
    if isinstance(asked, bool) or isinstance(effective, bool) or effective is None:
        return str(asked).lower() == str(effective).lower()
    try:
        return float(asked or 0) == float(effective)
    except (TypeError, ValueError, OverflowError):
        return _spelled(str(asked)) == _spelled(str(effective))


def _spelled(text: str) -> str:
    if text.startswith("/"):
        return posixpath.normpath(text)
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text.lower()


def _hash(requested: Mapping[str, Scalar], effective: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """Equal for two starts that run the same. What cannot be confirmed counts as asked: two cells are never taken for
    one because the server is silent about what tells them apart."""
    unconfirmed = {
        name: value
        for name, value in requested.items()
        if _reported_as(name, effective) not in effective and name not in _OF_ONE_START
    }
    running = {name: value for name, value in effective.items() if name not in _OF_ONE_START}
    text = json.dumps([running, unconfirmed, dict(environment)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))
