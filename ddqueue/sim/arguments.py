"""SGLang's own command line, as far as the simulator takes it, and the simulator's few arguments of its own.

Names and defaults are those of SGLang 0.5.15, with the DDTree arguments of the build that adds them. Whatever is not
here is refused in argparse's words and with its exit code 2; unique prefixes are accepted, because SGLang accepts them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddqueue.errors import UsageError
from ddqueue.sim.cost import BoxCosts, box_named
from ddqueue.sim.faults import Fault, Faults, parse

PROGRAM = "sglang serve"
DEFAULT_TOPK = 4

_VALUES: Mapping[str, object] = {
    "tokenizer_path": None,
    "tokenizer_mode": "auto",
    "tokenizer_worker_num": 1,
    "load_format": "auto",
    "context_length": None,
    "revision": None,
    "model_impl": "auto",
    "json_model_override_args": "{}",
    "dtype": "auto",
    "quantization": None,
    "kv_cache_dtype": "auto",
    "mem_fraction_static": 0.85,
    "max_running_requests": None,
    "max_queued_requests": None,
    "max_total_tokens": None,
    "chunked_prefill_size": 8192,
    "max_prefill_tokens": 16384,
    "schedule_policy": "fcfs",
    "schedule_conservativeness": 1.0,
    "page_size": 1,
    "num_continuous_decode_steps": 1,
    "dist_timeout": None,
    "dist_init_addr": None,
    "nccl_port": None,
    "nnodes": 1,
    "node_rank": 0,
    "tp_size": 1,
    "pp_size": 1,
    "dp_size": 1,
    "ep_size": 1,
    "load_balance_method": "round_robin",
    "device": "cuda",
    "base_gpu_id": 0,
    "gpu_id_step": 1,
    "random_seed": None,
    "watchdog_timeout": 300.0,
    "host": "127.0.0.1",
    "port": 30000,
    "warmups": None,
    "api_key": None,
    "served_model_name": None,
    "weight_version": "default",
    "chat_template": None,
    "reasoning_parser": None,
    "tool_call_parser": None,
    "sampling_defaults": "model",
    "stream_interval": 1,
    "log_level": "info",
    "log_level_http": None,
    "decode_log_interval": 40,
    "attention_backend": None,
    "decode_attention_backend": None,
    "prefill_attention_backend": None,
    "sampling_backend": None,
    "grammar_backend": None,
    "fp8_gemm_runner_backend": "auto",
    "cuda_graph_max_bs_decode": None,
    "triton_attention_num_kv_splits": 8,
    "speculative_algorithm": None,
    "speculative_draft_model_path": None,
    "speculative_draft_model_revision": None,
    "speculative_draft_load_format": None,
    "speculative_num_steps": None,
    "speculative_eagle_topk": None,
    "speculative_num_draft_tokens": None,
    "speculative_accept_threshold_single": 1.0,
    "speculative_accept_threshold_acc": 1.0,
    "speculative_attention_mode": "prefill",
    "speculative_draft_attention_backend": None,
    "speculative_draft_window_size": None,
    "speculative_ddtree_budget": None,
    "speculative_moe_runner_backend": None,
    "speculative_draft_model_quantization": None,
    "moe_a2a_backend": "none",
    "moe_runner_backend": "auto",
    "deepep_mode": "auto",
    "ep_num_redundant_experts": 0,
    "moe_dense_tp_size": None,
    "cpu_offload_gb": 0,
    "download_dir": None,
}
"""Settings that take a value, with their defaults; a flag is the name with hyphens."""

_NUMBERS_WITHOUT_DEFAULT = frozenset(
    {
        "context_length",
        "max_running_requests",
        "max_queued_requests",
        "max_total_tokens",
        "dist_timeout",
        "nccl_port",
        "random_seed",
        "cuda_graph_max_bs_decode",
        "speculative_num_steps",
        "speculative_eagle_topk",
        "speculative_num_draft_tokens",
        "speculative_draft_window_size",
        "speculative_ddtree_budget",
        "moe_dense_tp_size",
    }
)

_SWITCHES = (
    "skip_tokenizer_init",
    "trust_remote_code",
    "is_embedding",
    "disable_radix_cache",
    "disable_chunked_prefix_cache",
    "disable_overlap_schedule",
    "enable_mixed_chunk",
    "enable_dp_attention",
    "enable_dp_lm_head",
    "enable_p2p_check",
    "skip_server_warmup",
    "enable_cache_report",
    "log_requests",
    "show_time_cost",
    "enable_metrics",
    "disable_prefill_cuda_graph",
    "disable_decode_cuda_graph",
    "disable_cuda_graph",
    "disable_cuda_graph_padding",
    "enable_nccl_nvls",
    "enable_symm_mem",
    "disable_custom_all_reduce",
    "enable_mscclpp",
    "enable_flashinfer_allreduce_fusion",
    "enable_torch_compile",
    "enable_eplb",
    "enable_two_batch_overlap",
    "disable_shared_experts_fusion",
    "enable_deterministic_inference",
    "enable_memory_saver",
)

_OTHER_FLAGS: Mapping[str, tuple[str, ...]] = {
    "model_path": ("--model",),
    "tp_size": ("--tensor-parallel-size",),
    "pp_size": ("--pipeline-parallel-size",),
    "dp_size": ("--data-parallel-size",),
    "ep_size": ("--expert-parallel-size", "--ep"),
    "cuda_graph_max_bs_decode": ("--cuda-graph-max-bs",),
    "speculative_num_draft_tokens": ("--speculative-dflash-block-size",),
    "speculative_draft_window_size": ("--speculative-dflash-draft-window-size",),
}

_DEPRECATED: Mapping[str, str] = {"--cuda-graph-max-bs": "--cuda-graph-max-bs-decode"}


@dataclass(frozen=True)
class SimOptions:
    """What only the simulator knows: the box, its GPUs, the drafter's training, and how it misbehaves."""

    box: BoxCosts
    gpus_directory: Path | None
    trained_block_size: int
    topk: int
    startup_s: float
    noise: float
    faults: Faults


@dataclass(frozen=True)
class CommandLine:
    """A command line that argparse accepts. `settings` has SGLang's names with underscores."""

    settings: dict[str, Any]
    options: SimOptions
    deprecations: tuple[str, ...]


def read(arguments: Sequence[str], environment: Mapping[str, str]) -> CommandLine:
    """Read SGLang's arguments and the simulator's.

    Raises:
        SystemExit: code 2, after usage and the reason on stderr, as argparse does it.
        UsageError: a variable of the environment that the simulator reads makes no sense.
    """
    settings = vars(_parser().parse_args(arguments))
    names = ("sim_fault", "sim_startup_s", "sim_noise", "sim_speed")
    faults, startup_s, noise, speed = (settings.pop(name) for name in names)
    directory = environment.get("DDQUEUE_SIM_GPUS")
    options = SimOptions(
        box=box_named(environment.get("DDQUEUE_SIM_BOX", "pcie")).at_speed(speed),
        gpus_directory=Path(directory) if directory else None,
        trained_block_size=_positive(environment, "DDQUEUE_SIM_TRAINED_BLOCK", 8),
        topk=_positive(environment, "SGLANG_DDTREE_MAX_TOPK", DEFAULT_TOPK),
        startup_s=startup_s,
        noise=noise,
        faults=Faults(tuple(faults)),
    )
    deprecations = tuple(
        f"'{old}' is deprecated and will be removed in a future release. Use '{new}' instead."
        for old, new in _DEPRECATED.items()
        if any(word.split("=")[0] == old for word in arguments)
    )
    return CommandLine(settings, options, deprecations)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM)
    parser.add_argument("--model-path", *_OTHER_FLAGS["model_path"], required=True)
    for name, default in _VALUES.items():
        kind = int if name in _NUMBERS_WITHOUT_DEFAULT else str if default is None else type(default)
        parser.add_argument(_flag(name), *_OTHER_FLAGS.get(name, ()), dest=name, type=kind, default=default)
    for name in _SWITCHES:
        parser.add_argument(_flag(name), dest=name, action="store_true")
    simulator = parser.add_argument_group("simulator")
    simulator.add_argument("--sim-fault", action="append", type=_fault, default=[])
    simulator.add_argument("--sim-startup-s", type=float, default=1.5)
    simulator.add_argument("--sim-noise", type=float, default=0.01)
    simulator.add_argument(
        "--sim-speed", type=_speed, default=1.0, help="so many times as fast as its kind: to plant a difference"
    )
    return parser


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _fault(text: str) -> Fault:
    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _speed(text: str) -> float:
    speed = float(text)
    if not 0 < speed < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no speed; say a number above 0, such as 1.02")
    return speed


def _positive(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, str(default))
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UsageError(f"{name} is {text!r}; it must be a whole number from 1 up")
    return int(text)
