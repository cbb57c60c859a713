"""From an engine profile and a cell to a command line, and back from what the server says it runs."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
from pathlib import Path

import pytest

from ddqueue.domain.configuration import Cell, Parallelism, Scalar, Speculation
from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.inventory import Drafter, EngineProfile, Host, Model, SettingTemplate
from ddqueue.engine.command import build, starter
from ddqueue.engine.effective import compare
from ddqueue.ports import LaunchRequest

DDTREE = EngineProfile(
    "sglang-ddtree",
    {"*": ("{python}", "-m", "sglang.launch_server")},
    {
        "speculation": SettingTemplate(
            ("--speculative-algorithm", "DDTREE", "--speculative-draft-model-path", "{drafter}")
        ),
        "block_size": SettingTemplate(("--speculative-num-draft-tokens", "{value}")),
        "budget": SettingTemplate(("--speculative-ddtree-budget", "{value}")),
        "topk": SettingTemplate(env={"SGLANG_DDTREE_MAX_TOPK": "{value}"}),
        "window": SettingTemplate(("--speculative-draft-window-size", "{value}")),
    },
    args={"trust-remote-code": True, "mem-fraction-static": 0.8},
    env={"NCCL_DEBUG": "WARN"},
)
CELL = Cell("k2", "sglang-ddtree", Speculation(8, 12, 6, 2048), {"mem-fraction-static": 0.85}, {"NCCL_DEBUG": "INFO"})
REQUEST = LaunchRequest(
    host=Host("rtx6000", 8, "RTX PRO 6000"),
    model=Model("k2", {"rtx6000": "/models/k2", "*": "/data/k2"}, Drafter({"*": "/models/k2-draft"}, 8)),
    profile=DDTREE,
    cell=Cell(
        "k2", "sglang-ddtree", Speculation(8, 12, 6, 2048), {"mem-fraction-static": 0.85}, {"NCCL_DEBUG": "INFO"}
    ),
    parallelism=Parallelism(tp=8, ep=8),
    tag="ddqueue-1-2",
    log_path="server.log",
    lock_fd=3,
    lock_path="rtx6000.lock",
    random_seed=7,
)


def pairs(argv: tuple[str, ...]) -> dict[str, str]:
    return {word: following for word, following in itertools.pairwise(argv) if word.startswith("--")}


def test_every_setting_is_on_the_command_line() -> None:
    command = build(REQUEST, 21000)
    assert command.argv[:3] == (sys.executable, "-m", "sglang.launch_server")
    said = pairs(command.argv)
    assert said | {"--trust-remote-code": ""} == {
        "--model-path": "/models/k2",
        "--host": "127.0.0.1",
        "--port": "21000",
        "--tp-size": "8",
        "--ep-size": "8",
        "--weight-version": "ddqueue-1-2",
        "--random-seed": "7",
        "--trust-remote-code": "",
        "--mem-fraction-static": "0.85",
        "--speculative-algorithm": "DDTREE",
        "--speculative-draft-model-path": "/models/k2-draft",
        "--speculative-num-draft-tokens": "8",
        "--speculative-ddtree-budget": "12",
        "--speculative-draft-window-size": "2048",
    }
    assert command.environment == {"NCCL_DEBUG": "INFO", "SGLANG_DDTREE_MAX_TOPK": "6"}
    assert command.requested["speculative_ddtree_budget"] == "12"
    assert command.requested["trust_remote_code"] is True


def test_the_baseline_says_nothing_of_speculation() -> None:
    command = build(dataclasses.replace(REQUEST, cell=Cell("k2", "sglang-ddtree")), 21000)
    assert not [word for word in command.argv if "speculative" in word]


def test_no_window_leaves_the_flag_out() -> None:
    cell = Cell("k2", "sglang-ddtree", Speculation(8, 8, 4, None))
    assert "--speculative-draft-window-size" not in build(dataclasses.replace(REQUEST, cell=cell), 21000).argv


def test_no_window_is_said_where_a_build_needs_it_said() -> None:
    settings = {
        **DDTREE.settings,
        "no_window": SettingTemplate(("--full-draft-context",), {"SGLANG_DRAFT_WINDOW": "0"}),
    }
    profile = dataclasses.replace(DDTREE, settings=settings)
    without = dataclasses.replace(
        REQUEST, profile=profile, cell=Cell("k2", "sglang-ddtree", Speculation(8, 8, 4, None))
    )
    command = build(without, 21000)
    assert "--full-draft-context" in command.argv
    assert command.requested["full_draft_context"] is True
    assert command.environment["SGLANG_DRAFT_WINDOW"] == "0"
    with_window = build(dataclasses.replace(REQUEST, profile=profile), 21000)
    assert "--full-draft-context" not in with_window.argv
    assert "SGLANG_DRAFT_WINDOW" not in with_window.environment
    baseline = build(dataclasses.replace(without, cell=Cell("k2", "sglang-ddtree")), 21000)
    assert "--full-draft-context" not in baseline.argv


def test_the_words_that_start_a_build() -> None:
    assert starter(REQUEST) == (sys.executable, "-m", "sglang.launch_server")
    elsewhere = dataclasses.replace(REQUEST, profile=dataclasses.replace(DDTREE, commands={"b300": ("x",)}))
    with pytest.raises(AttemptFailure, match="has no command for host rtx6000") as refused:
        build(elsewhere, 21000)
    assert refused.value.failure is Failure.BAD_ARGS


def test_a_setting_the_build_lacks_is_refused_before_any_gpu_is_taken() -> None:
    dflash = dataclasses.replace(
        DDTREE, name="sglang-dflash", settings={k: v for k, v in DDTREE.settings.items() if k not in ("budget", "topk")}
    )
    with pytest.raises(AttemptFailure, match="sglang-dflash has no way to set budget, topk") as refused:
        build(dataclasses.replace(REQUEST, profile=dflash), 21000)
    assert refused.value.failure is Failure.UNSUPPORTED


def test_a_model_that_is_not_on_this_host() -> None:
    model = Model("k2", {"b300": "/data/k2"})
    with pytest.raises(AttemptFailure, match="no path for host rtx6000") as refused:
        build(dataclasses.replace(REQUEST, model=model), 21000)
    assert refused.value.failure is Failure.MODEL_NOT_FOUND


INFO = json.loads((Path(__file__).parents[1] / "data" / "server_info" / "dflash8.json").read_text())
"""A real SGLang 0.5.15's reply; asked for topk 4 and 7 steps with DFLASH, it says the same: 1 and 1."""


def test_a_silently_changed_setting_is_a_difference() -> None:
    asked: dict[str, Scalar] = {
        "speculative_algorithm": "DFLASH",
        "speculative_eagle_topk": "4",
        "speculative_num_steps": "7",
        "speculative_num_draft_tokens": "8",
        "mem_fraction_static": "0.30",
        "enable_metrics": True,
        "cuda_graph_max_bs": "32",
    }
    check = compare(asked, INFO)
    assert check.difference == {"speculative_eagle_topk": ["4", 1], "speculative_num_steps": ["7", 1]}
    assert check.requested == asked
    assert check.effective["speculative_num_draft_tokens"] == 8
    assert "internal_states" not in check.effective
