"""The sizes in a model's config.json that decide how it can be split and how long its context is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MOST = 2**40
"""Larger numbers are no sizes; a file that holds one says nothing about it."""

_TEXT_CONFIGS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where multimodal models keep the language model's part. Source: SGLang's get_hf_text_config."""
_EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
_POSITIONS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")
"""In SGLang's order of preference. Source: SGLang's CONTEXT_LENGTH_KEYS."""


@dataclass(frozen=True)
class ModelShape:
    """Every size is None where the file does not say it, or says something else than a positive whole number."""

    attention_heads: int | None = None
    kv_heads: int | None = None
    """Also None where keys and values are compressed for all heads together (MLA), which nothing divides."""
    experts: int | None = None
    """Routed ones."""
    moe_intermediate_size: int | None = None
    weight_block: int | None = None
    """Rows of one block of a block-quantised weight: the first number of `weight_block_size`."""
    weight_group: int | None = None
    """Weights that share a scale in a group-quantised one."""
    context_length: int | None = None
    """Tokens, with the scaling of its rotary embedding."""
    block_size: int | None = None
    """What a block-diffusion drafter was trained for."""


@dataclass(frozen=True)
class ModelFiles:
    """What lies at a model's path on this machine.

    `shape` is None where no config.json could be read; each of `problems` names a file and what is wrong with it.
    `opaque`: the path is a hub's name or a single file, so there is no folder to look into.
    """

    path: str
    shape: ModelShape | None = None
    problems: tuple[str, ...] = ()
    opaque: bool = False


def shape_of(config: object) -> ModelShape:
    """The shape in a parsed config.json; whatever it holds, nothing is raised."""
    top = _mapping(config)
    places = (*_text_parts(top), top)
    return ModelShape(
        attention_heads=_size(places, "num_attention_heads", "n_head", "num_heads"),
        kv_heads=None if _size(places, "kv_lora_rank") else _size(places, "num_key_value_heads"),
        experts=_size(places, *_EXPERTS),
        moe_intermediate_size=_size(places, "moe_intermediate_size"),
        weight_block=_weight_block(places),
        weight_group=_weight_group(places),
        context_length=_context_length(places),
        block_size=_size((top, _mapping(top.get("dflash_config")), *places), "block_size"),
    )


def _text_parts(top: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The language model's part, the innermost first: a `thinker_config` has a `text_config` of its own."""
    for name in _TEXT_CONFIGS:
        part = _mapping(top.get(name))
        if part:
            yield from (inner for key in _TEXT_CONFIGS if (inner := _mapping(part.get(key))))
            yield part


def _weight_block(places: tuple[Mapping[str, Any], ...]) -> int | None:
    for quantisation in _quantisations(places):
        block = quantisation.get("weight_block_size")
        if isinstance(block, list) and block:
            return _whole(block[0])
    return None


def _weight_group(places: tuple[Mapping[str, Any], ...]) -> int | None:
    """GPTQ and AWQ say it at the top, compressed-tensors in each of its groups: the largest has to fit."""
    sizes = []
    for quantisation in _quantisations(places):
        sizes.append(_whole(quantisation.get("group_size")))
        groups = _mapping(quantisation.get("config_groups"))
        sizes += [_whole(_mapping(_mapping(group).get("weights")).get("group_size")) for group in groups.values()]
    return max((size for size in sizes if size is not None), default=None)


def _quantisations(places: tuple[Mapping[str, Any], ...]) -> list[Mapping[str, Any]]:
    return [_mapping(place.get(name)) for place in places for name in ("quantization_config", "compression_config")]


def _context_length(places: tuple[Mapping[str, Any], ...]) -> int | None:
    """As SGLang derives it: a scaling that names the original length, or Llama 3's, is in the number already."""
    positions = _size(places, *_POSITIONS)
    scaling = next((found for place in places if (found := _mapping(place.get("rope_scaling")))), {})
    factor = scaling.get("factor")
    plain = "original_max_position_embeddings" in scaling or scaling.get("rope_type") == "llama3"
    if positions is None or plain or isinstance(factor, bool) or not isinstance(factor, (int, float)):
        return positions
    return int(positions * factor) if 0 < factor <= MOST else positions


def _size(places: tuple[Mapping[str, Any], ...], *names: str) -> int | None:
    """The first of the names that a place gives as a size; the text part counts before the whole."""
    return next((size for place in places for name in names if (size := _whole(place.get(name)))), None)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
