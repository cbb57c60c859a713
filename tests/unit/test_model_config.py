"""What a model's folder says of itself, and that nothing in it can make the reader raise."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddqueue.domain.preflight.model_shape import ModelFiles, ModelShape, shape_of
from ddqueue.files.model_config import look

CONFIGS = Path(__file__).parents[1] / "data" / "model_configs"


def shape(name: str) -> ModelShape:
    return shape_of(json.loads((CONFIGS / name).read_text()))


def folder(path: Path, config: str | None = "qwen3-dense.json", *names: str) -> Path:
    """A model's folder with that config.json and empty files of these names."""
    path.mkdir()
    if config is not None:
        shutil.copy(CONFIGS / config, path / "config.json")
    for name in names:
        (path / name).write_text("")
    return path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen3-dense.json", ModelShape(attention_heads=4, kv_heads=2, context_length=16384)),
        (
            "qwen3-moe-fp8.json",
            ModelShape(64, 4, experts=128, moe_intermediate_size=1536, weight_block=128, context_length=40960),
        ),
        # MLA has no key-value heads to divide; YaRN's original length means that the positions are scaled already.
        (
            "kimi-nested.json",
            ModelShape(64, None, experts=384, moe_intermediate_size=2048, weight_group=32, context_length=262144),
        ),
        (
            "deepseek-fp8-nested.json",
            ModelShape(128, None, experts=256, moe_intermediate_size=1536, weight_block=128, context_length=163840),
        ),
        ("llama-scaled.json", ModelShape(32, 8, context_length=4 * 8192)),
        ("drafter-block8.json", ModelShape(4, 2, context_length=16384, block_size=8)),
        ("drafter-block16-nested.json", ModelShape(64, 8, context_length=4096, block_size=16)),
        ("wrong-types.json", ModelShape()),
        ("huge.json", ModelShape(kv_heads=8)),
    ],
)
def test_the_shape_of_each_layout(name: str, expected: ModelShape) -> None:
    assert shape(name) == expected


def test_a_text_config_inside_a_thinker_config() -> None:
    config = {"thinker_config": {"text_config": {"num_attention_heads": 28}, "num_attention_heads": 2}}
    assert shape_of(config).attention_heads == 28


KEYS = (
    "num_attention_heads",
    "num_key_value_heads",
    "kv_lora_rank",
    "num_experts",
    "n_routed_experts",
    "moe_intermediate_size",
    "max_position_embeddings",
    "rope_scaling",
    "factor",
    "rope_type",
    "block_size",
    "dflash_config",
    "quantization_config",
    "weight_block_size",
    "config_groups",
    "weights",
    "group_size",
    "text_config",
    "llm_config",
    "thinker_config",
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner),
    max_leaves=20,
)


@given(json_values)
def test_no_json_makes_it_raise_and_every_size_is_a_size(value: object) -> None:
    for size in vars(shape_of(value)).values():
        assert size is None or (type(size) is int and size > 0)


@given(st.binary(max_size=200))
def test_no_bytes_in_config_json_make_it_raise(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("model")
    (path / "config.json").write_bytes(content)
    found = look(str(path), weights=False, tokenizer=False)
    assert (found.shape is None) == bool(found.problems)


def test_a_whole_model_has_no_problems(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", "qwen3-dense.json", "model.safetensors", "tokenizer.json")
    assert look(str(path)) == ModelFiles(str(path), shape("qwen3-dense.json"))


def test_each_thing_that_is_missing_is_named(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", None)
    assert look(str(path)).problems == (
        f"{path}/config.json: No such file or directory",
        f"{path} has no weight file",
        f"{path} has no tokenizer",
    )
    assert look(str(path), weights=False, tokenizer=False).problems == (
        f"{path}/config.json: No such file or directory",
    )


def test_what_only_looks_like_weights_or_a_tokenizer(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", "qwen3-dense.json", "training_args.bin", "optimizer.npz", "generation_config.json")
    assert look(str(path)).problems == (f"{path} has no weight file", f"{path} has no tokenizer")


@pytest.mark.parametrize("name", ["tiktoken.model.tiktoken", "tokenizer.model", "tekken.json", "tokenizer_config.json"])
@pytest.mark.parametrize("weights", ["pytorch_model-00001-of-00002.bin", "model-1.safetensors", "q4.gguf"])
def test_other_forms_of_weights_and_tokenizers(tmp_path: Path, name: str, weights: str) -> None:
    assert look(str(folder(tmp_path / "m", "qwen3-dense.json", name, weights))).problems == ()


def test_a_half_copied_model(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", "qwen3-dense.json", "tokenizer.json", "model-1.safetensors")
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors", "c": "model-3.safetensors"}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert look(str(path)).problems == (f"{path} lacks 2 of 3 weight files, model-2.safetensors first",)
    for name in ("model-2.safetensors", "model-3.safetensors"):
        (path / name).write_text("")
    assert look(str(path)).problems == ()


@pytest.mark.parametrize(
    ("index", "problem"),
    [("[]", "has no weight_map"), ("{", "is not JSON"), ('{"weight_map": {"a": 1, "b": "\\u0000"}}', "lacks 1 of 1")],
)
def test_an_index_that_says_nothing(tmp_path: Path, index: str, problem: str) -> None:
    path = folder(tmp_path / "m", "qwen3-dense.json", "tokenizer.json", "model.safetensors")
    (path / "model.safetensors.index.json").write_text(index)
    [found] = look(str(path)).problems
    assert problem in found


def test_a_weight_file_that_is_a_dead_link(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", "qwen3-dense.json", "tokenizer.json")
    (path / "model.safetensors").symlink_to(tmp_path / "gone")
    assert look(str(path)).problems == (f"{path}/model.safetensors cannot be read",)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"num_attention_heads": 64, "num_key', "is not JSON"),
        ("[1, 2]", "holds no mapping"),
        ("[" * 100_000, "is not JSON"),
        ('{"num_attention_heads": ' + "9" * 5000 + "}", "is not JSON"),
        (" " * (16 * 2**20 + 1), "is larger than 16 MiB"),
    ],
)
def test_a_config_that_cannot_be_used(tmp_path: Path, content: str, problem: str) -> None:
    path = folder(tmp_path / "m", None, "model.safetensors", "tokenizer.json")
    (path / "config.json").write_text(content)
    found = look(str(path))
    assert found.shape is None
    assert [f"{path}/config.json" in text and problem in text for text in found.problems] == [True]


def test_paths_that_are_no_folder(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    assert look(gone).problems == (f"{gone}: No such file or directory",)
    assert look("a\0b").problems != ()
    assert look("Qwen/Qwen3-8B") == ModelFiles("Qwen/Qwen3-8B", opaque=True)
    gguf = tmp_path / "q4.gguf"
    assert not look(str(gguf)).opaque
    gguf.write_bytes(b"GGUF")
    assert look(str(gguf)) == ModelFiles(str(gguf), opaque=True)
