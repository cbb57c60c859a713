"""Two mixtures of experts for tests over several GPUs, written from the trained pair; needs no PyTorch.

`moe-upcycled`: the trained target with its MLP copied into every expert. A router's weights sum to 1, so whichever
experts it picks the model computes what the trained one does, and the trained drafter is accepted as often, however the
experts are spread. `moe-random` with `moe-random-draft`: configurations only, for `--load-format dummy`; random weights
accept next to nothing.
"""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

EXPERTS, EXPERTS_PER_TOKEN = 8, 2
_ROUTER_SEED = 1
_MOE = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "num_experts": EXPERTS,
    "num_experts_per_tok": EXPERTS_PER_TOKEN,
    "decoder_sparse_step": 1,
    "norm_topk_prob": True,
    "mlp_only_layers": [],
}
_RANDOM = {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
}
_RANDOM_LAYERS = 4


class Tensor(NamedTuple):
    """A tensor's name, its shape, and its bytes in bfloat16."""

    name: str
    shape: tuple[int, ...]
    data: bytes


def write_moe_models(pair: Path, folder: Path) -> None:
    """Write the three models under `folder`; `pair` holds `target/` (Qwen3, one file of weights) and `draft/`."""
    target = json.loads((pair / "target" / "config.json").read_text())
    draft = json.loads((pair / "draft" / "config.json").read_text())
    _folder(pair, folder / "moe-upcycled", {**target, **_MOE, "moe_intermediate_size": target["intermediate_size"]})
    _write(folder / "moe-upcycled" / "model.safetensors", _upcycled(pair / "target" / "model.safetensors", target))
    _folder(
        pair,
        folder / "moe-random",
        {**target, **_RANDOM, **_MOE, "moe_intermediate_size": 256, "num_hidden_layers": _RANDOM_LAYERS},
    )
    layers = {
        "num_target_layers": _RANDOM_LAYERS,
        "dflash_config": {**draft["dflash_config"], "target_layer_ids": [1, 2]},
    }
    _folder(pair, folder / "moe-random-draft", {**draft, **_RANDOM, **layers})


def _folder(pair: Path, folder: Path, config: dict[str, Any]) -> None:
    """The target's tokenizer with another configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in (pair / "target").iterdir():
        if file.suffix != ".safetensors":
            shutil.copy(file, folder)
    (folder / "config.json").write_text(json.dumps(config, indent=1))


def _upcycled(weights: Path, config: dict[str, Any]) -> Iterator[Tensor]:
    numbers = random.Random(_ROUTER_SEED)
    for tensor in _read(weights):
        layer, mlp, part = tensor.name.partition(".mlp.")
        if not mlp:
            yield tensor
            continue
        for expert in range(EXPERTS):
            yield tensor._replace(name=f"{layer}.mlp.experts.{expert}.{part}")
        if part == "down_proj.weight":
            shape = (EXPERTS, config["hidden_size"])
            router = b"".join(_bf16(numbers.gauss(0.0, 0.1)) for _ in range(shape[0] * shape[1]))
            yield Tensor(f"{layer}.mlp.gate.weight", shape, router)


def _bf16(number: float) -> bytes:
    """The upper half of a float32, little-endian."""
    return struct.pack("<f", number)[2:]


def _read(path: Path) -> Iterator[Tensor]:
    """The tensors of a safetensors file in bfloat16."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        start = 8 + length
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            if entry["dtype"] != "BF16":
                raise ValueError(f"{path}: {name} is {entry['dtype']}, not BF16")
            begin, end = entry["data_offsets"]
            file.seek(start + begin)
            yield Tensor(name, tuple(entry["shape"]), file.read(end - begin))


def _write(path: Path, tensors: Iterator[Tensor]) -> None:
    found = list(tensors)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in found:
        header[tensor.name] = {
            "dtype": "BF16",
            "shape": tensor.shape,
            "data_offsets": [offset, offset + len(tensor.data)],
        }
        offset += len(tensor.data)
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(tensor.data for tensor in found)
