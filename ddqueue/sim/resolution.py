"""What SGLang makes of its arguments before anything starts: refusals, and settings changed with just a warning.

The words are SGLang 0.5.15's where a log shows them; DDTREE's follow DFLASH's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ddqueue.sim.arguments import SimOptions
from ddqueue.sim.drafter import Drafter
from ddqueue.sim.faults import FaultKind

DRAFTING = ("DFLASH", "DDTREE", "EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
_BLOCK_DRAFTING = ("DFLASH", "DDTREE")
_DEFAULT_CONTEXT_LENGTH = 32768
_RUNNING_WITH_SPECULATION = 48
_RUNNING_WITHOUT = 2048


def check_paths(settings: Mapping[str, Any], options: SimOptions) -> None:
    """Raises OSError in the hub's words for a model or drafter that a fault says is not there."""
    for place, name in (("model", "model_path"), ("draft", "speculative_draft_model_path")):
        if settings[name] is not None and options.faults.find(FaultKind.NOT_FOUND, place):
            raise OSError(
                "Repo id must use alphanumeric chars, '-', '_' or '.'. The name cannot start or end with '-' or '.' and"
                f" the maximum length is 96: '{settings[name]}'."
            )


def resolve(settings: dict[str, Any], options: SimOptions) -> list[str]:
    """Change `settings` into what will run; returns the warnings.

    Raises:
        ValueError: a combination this engine cannot run.
    """
    settings["tokenizer_path"] = settings["tokenizer_path"] or settings["model_path"]
    settings["served_model_name"] = settings["served_model_name"] or settings["model_path"]
    settings["attention_backend"] = settings["attention_backend"] or "triton"
    settings["sampling_backend"] = settings["sampling_backend"] or "pytorch"
    settings["grammar_backend"] = settings["grammar_backend"] or "xgrammar"
    if settings["random_seed"] is None:
        settings["random_seed"] = 0
    for name in ("tp_size", "pp_size", "dp_size", "ep_size"):
        if settings[name] < 1:
            raise ValueError(f"{name} must be at least 1, got {settings[name]}.")
    if settings["tp_size"] % settings["ep_size"]:
        raise ValueError(f"tp_size ({settings['tp_size']}) must be divisible by ep_size ({settings['ep_size']}).")
    warnings = []
    if settings["pp_size"] > 1:
        warnings.append("Pipeline parallelism is incompatible with overlap schedule.")
        settings["disable_overlap_schedule"] = True
    if settings["speculative_algorithm"] is not None:
        warnings += _resolve_speculation(settings)
    for fault in options.faults.all_of(FaultKind.WRONG_SETTING):
        name = str(fault.where)
        settings[name] = _like(settings.get(name), str(fault.value))
    return warnings


def drafter_for(settings: Mapping[str, Any], options: SimOptions) -> Drafter | None:
    """The drafter that the resolved settings ask for; none without speculation."""
    if settings["speculative_algorithm"] is None:
        return None
    block_size = int(settings["speculative_num_draft_tokens"])
    budget = settings["speculative_ddtree_budget"] if settings["speculative_algorithm"] == "DDTREE" else None
    return Drafter(block_size, options.trained_block_size, budget, options.topk)


def context_length(settings: Mapping[str, Any]) -> int:
    """The longest prompt and answer together, in tokens."""
    return int(settings["context_length"] or _DEFAULT_CONTEXT_LENGTH)


def most_running(settings: Mapping[str, Any]) -> int:
    """How many requests may run at once."""
    return int(settings["max_running_requests"] or _RUNNING_WITHOUT)


def _resolve_speculation(settings: dict[str, Any]) -> list[str]:
    algorithm = settings["speculative_algorithm"] = str(settings["speculative_algorithm"]).upper()
    if algorithm not in DRAFTING:
        raise ValueError(f"Unknown speculative algorithm name: {algorithm}")
    warnings = []
    if algorithm in _BLOCK_DRAFTING:
        warnings += _resolve_block_drafting(settings, algorithm)
    else:
        warnings += _resolve_autoregressive_drafting(settings)
    if settings["max_running_requests"] is None:
        settings["max_running_requests"] = _RUNNING_WITH_SPECULATION
        warnings.append(
            f"Max running requests is reset to {_RUNNING_WITH_SPECULATION} for speculative decoding. You can override"
            " this by explicitly setting --max-running-requests."
        )
    return warnings


def _resolve_block_drafting(settings: dict[str, Any], algorithm: str) -> list[str]:
    if settings["pp_size"] != 1:
        raise ValueError(f"Currently {algorithm} speculative decoding only supports pp_size == 1.")
    if settings["speculative_draft_model_path"] is None:
        raise ValueError(f"{algorithm} speculative decoding requires setting --speculative-draft-model-path.")
    warnings = []
    for name in ("speculative_num_steps", "speculative_eagle_topk"):
        if settings[name] not in (None, 1):
            warnings.append(f"{algorithm} only supports {name} == 1; overriding {name}={settings[name]} to 1.")
        settings[name] = 1
    if settings["speculative_num_draft_tokens"] is None:
        settings["speculative_num_draft_tokens"] = 16
    block_size = settings["speculative_num_draft_tokens"]
    if block_size < 2:
        raise ValueError(f"speculative_num_draft_tokens must be at least 2, got {block_size}.")
    window = settings["speculative_draft_window_size"]
    if window is not None and window < block_size:
        raise ValueError(f"speculative_draft_window_size ({window}) must be >= block_size ({block_size}).")
    if algorithm == "DDTREE":
        if settings["speculative_ddtree_budget"] is None:
            settings["speculative_ddtree_budget"] = block_size - 1
        if settings["speculative_ddtree_budget"] < 1:
            raise ValueError("speculative_ddtree_budget must be at least 1.")
    elif settings["speculative_ddtree_budget"] is not None:
        settings["speculative_ddtree_budget"] = None
        warnings.append("speculative_ddtree_budget is ignored, because speculative_algorithm is not DDTREE.")
    return warnings


def _resolve_autoregressive_drafting(settings: dict[str, Any]) -> list[str]:
    """The simulator drafts a chain whatever the algorithm; with topk 1 SGLang verifies steps + 1 tokens."""
    steps = settings["speculative_num_steps"] = settings["speculative_num_steps"] or 3
    topk = settings["speculative_eagle_topk"] = settings["speculative_eagle_topk"] or 1
    asked = settings["speculative_num_draft_tokens"]
    if topk > 1:
        raise ValueError("the simulated engine drafts no EAGLE tree; set --speculative-eagle-topk 1.")
    settings["speculative_num_draft_tokens"] = steps + 1
    if asked in (None, steps + 1):
        return []
    return ["speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1"]


def _like(previous: Any, text: str) -> Any:
    """The text as the kind of value the setting had."""
    if isinstance(previous, bool) or text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
