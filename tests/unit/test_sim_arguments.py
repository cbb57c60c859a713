"""SGLang's arguments as the simulator takes, refuses and changes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ddqueue.errors import UsageError
from ddqueue.sim import words
from ddqueue.sim.arguments import CommandLine, read
from ddqueue.sim.faults import Fault, FaultKind, parse
from ddqueue.sim.gpus import SimulatedGpus
from ddqueue.sim.resolution import check_paths, context_length, drafter_for, most_running, resolve
from ddqueue.sim.server import gpu_indexes

TREE = (
    *("--speculative-algorithm", "DDTREE", "--speculative-draft-model-path", "/draft"),
    *("--speculative-num-draft-tokens", "8", "--speculative-ddtree-budget", "12"),
)
CHAIN = ("--speculative-algorithm", "DFLASH", "--speculative-draft-model-path", "/draft")


def command(*arguments: str, **environment: str) -> CommandLine:
    return read(["--model-path", "/model", *arguments], environment)


def resolved(*arguments: str, **environment: str) -> tuple[dict[str, Any], list[str]]:
    line = command(*arguments, **environment)
    warnings = resolve(line.settings, line.options)
    return line.settings, warnings


@pytest.mark.parametrize(
    ("arguments", "words_of_argparse"),
    [
        (["--speculative-dflash-enable-ddtree"], "error: unrecognized arguments: --speculative-dflash-enable-ddtree"),
        (["--reasoning_parser", "x"], "error: unrecognized arguments: --reasoning_parser x"),
        (["--port", "many"], "error: argument --port: invalid int value: 'many'"),
        (["--sim-fault", "crash@nowhere"], "error: argument --sim-fault: crash cannot strike at 'nowhere'"),
    ],
)
def test_refusals_are_argparses_own(
    arguments: list[str], words_of_argparse: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        command(*arguments)
    assert exit_info.value.code == 2
    printed = capsys.readouterr().err
    assert printed.startswith("usage: sglang serve [-h]")
    assert f"sglang serve: {words_of_argparse}" in printed


def test_a_model_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        read([], {})
    assert exit_info.value.code == 2
    assert "the following arguments are required: --model-path" in capsys.readouterr().err


def test_other_spellings_and_prefixes_mean_the_same_setting() -> None:
    line = command("--tensor-parallel-size", "8", "--ep", "4", "--cuda-graph-max-bs=32", "--mem-fraction", "0.5")
    assert [line.settings[name] for name in ("tp_size", "ep_size", "cuda_graph_max_bs_decode")] == [8, 4, 32]
    assert line.settings["mem_fraction_static"] == 0.5
    assert line.deprecations == (
        "'--cuda-graph-max-bs' is deprecated and will be removed in a future release. Use"
        " '--cuda-graph-max-bs-decode' instead.",
    )


@pytest.mark.parametrize("value", ["0", "-1", "eight", "１"])
def test_a_variable_that_makes_no_sense_is_named(value: str) -> None:
    with pytest.raises(UsageError, match="SGLANG_DDTREE_MAX_TOPK is"):
        command(SGLANG_DDTREE_MAX_TOPK=value)


def test_a_box_can_be_made_faster_by_a_factor() -> None:
    plain, faster = command(), command("--sim-speed", "1.25")
    assert faster.options.box.step_ms(1, 9, 60.0) == pytest.approx(plain.options.box.step_ms(1, 9, 60.0) / 1.25)
    assert faster.options.box.prefill_ms(60) == pytest.approx(plain.options.box.prefill_ms(60) / 1.25)
    assert command("--sim-speed", "1.0").options.box == plain.options.box
    assert "sim_speed" not in faster.settings


@pytest.mark.parametrize("value", ["0", "-1", "inf", "nan", "fast"])
def test_a_speed_that_makes_no_sense_is_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command(f"--sim-speed={value}")
    assert "--sim-speed" in capsys.readouterr().err


def test_a_tree_takes_its_topk_from_the_environment() -> None:
    line = command(*TREE, SGLANG_DDTREE_MAX_TOPK="6", DDQUEUE_SIM_TRAINED_BLOCK="4")
    resolve(line.settings, line.options)
    drafter = drafter_for(line.settings, line.options)
    assert drafter is not None
    assert (drafter.block_size, drafter.budget, drafter.topk, drafter.verify_tokens) == (8, 12, 6, 13)
    assert drafter.out_of_distribution


def test_dflash_runs_a_chain_and_changes_settings_with_a_warning() -> None:
    settings, warnings = resolved(*CHAIN, "--speculative-eagle-topk", "4", "--speculative-num-steps", "7")
    assert (settings["speculative_eagle_topk"], settings["speculative_num_steps"]) == (1, 1)
    assert warnings == [
        "DFLASH only supports speculative_num_steps == 1; overriding speculative_num_steps=7 to 1.",
        "DFLASH only supports speculative_eagle_topk == 1; overriding speculative_eagle_topk=4 to 1.",
        "Max running requests is reset to 48 for speculative decoding. You can override this by explicitly setting"
        " --max-running-requests.",
    ]
    assert most_running(settings) == 48


def test_a_budget_without_a_tree_is_dropped() -> None:
    settings, warnings = resolved(*CHAIN, "--speculative-ddtree-budget", "8")
    assert settings["speculative_ddtree_budget"] is None
    assert warnings[0].startswith("speculative_ddtree_budget is ignored")


def test_eagle_with_topk_1_verifies_steps_and_one() -> None:
    settings, warnings = resolved(
        *("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "5", "--speculative-num-draft-tokens", "4")
    )
    assert settings["speculative_num_draft_tokens"] == 6
    assert warnings[0].startswith("speculative_num_draft_tokens is adjusted")


def test_without_speculation_nothing_is_drafted() -> None:
    line = command()
    assert resolve(line.settings, line.options) == []
    assert drafter_for(line.settings, line.options) is None
    assert (most_running(line.settings), context_length(line.settings)) == (2048, 32768)
    assert line.settings["served_model_name"] == "/model"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((*CHAIN, "--pp-size", "2"), "Currently DFLASH speculative decoding only supports pp_size == 1."),
        ((*TREE, "--pp-size", "8"), "Currently DDTREE speculative decoding only supports pp_size == 1."),
        (CHAIN[:2], "DFLASH speculative decoding requires setting --speculative-draft-model-path."),
        (
            (*TREE, "--speculative-draft-window-size", "4"),
            "speculative_draft_window_size (4) must be >= block_size (8).",
        ),
        ((*TREE[:-1], "0"), "speculative_ddtree_budget must be at least 1."),
        (("--speculative-algorithm", "MAGIC"), "Unknown speculative algorithm name: MAGIC"),
        (("--tp-size", "8", "--ep-size", "3"), "tp_size (8) must be divisible by ep_size (3)."),
    ],
)
def test_what_cannot_run_is_refused(arguments: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        resolved(*arguments)
    assert str(error.value) == reason


def test_a_missing_drafter_is_reported_in_the_hubs_words() -> None:
    line = command(*TREE, "--sim-fault", "not-found@draft")
    with pytest.raises(OSError, match=r"^Repo id must use alphanumeric chars.*'/draft'\.$"):
        check_paths(line.settings, line.options)
    without_drafter = command("--sim-fault", "not-found@draft")
    check_paths(without_drafter.settings, without_drafter.options)


def test_a_wrong_setting_keeps_the_settings_kind() -> None:
    settings, _ = resolved(
        *TREE,
        *("--sim-fault", "wrong-setting@speculative_ddtree_budget=4"),
        *("--sim-fault", "wrong-setting@attention-backend=fa3"),
        *("--sim-fault", "wrong-setting@enable_metrics=true"),
    )
    assert settings["speculative_ddtree_budget"] == 4
    assert settings["attention_backend"] == "fa3"
    assert settings["enable_metrics"] is True


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("crash@load", Fault(FaultKind.CRASH, "load")),
        ("crash:load", Fault(FaultKind.CRASH, "load")),
        ("oom@run=4", Fault(FaultKind.OOM, "run", "4")),
        ("stall", Fault(FaultKind.STALL, "all")),
        ("memory-kept=2.5", Fault(FaultKind.MEMORY_KEPT, None, "2.5")),
        ("wrong-tag=other", Fault(FaultKind.WRONG_TAG, None, "other")),
    ],
)
def test_faults_are_read(text: str, fault: Fault) -> None:
    assert parse(text) == fault


@pytest.mark.parametrize("text", ["", "explode", "crash@", "short@load", "wrong-setting@x", "oom@run=many"])
def test_faults_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)


def test_ranks_sit_on_the_visible_gpus(tmp_path: Path) -> None:
    settings = {"tp_size": 2, "pp_size": 1, "base_gpu_id": 1, "gpu_id_step": 1}
    gpus = SimulatedGpus.create(tmp_path / "box", 4, "Simulated GPU", 1000)
    assert gpu_indexes(settings, gpus, None) == [1, 2]
    assert gpu_indexes(settings, gpus, "3,1,0") == [1, 0]
    assert gpu_indexes(settings, gpus, "GPU-sim-box-3, GPU-sim-box-2,GPU-sim-box-0") == [2, 0]
    assert min(gpu_indexes(settings, gpus, "")) >= gpus.count
    assert gpu_indexes(settings, gpus, "0,1")[1] >= gpus.count


def test_text_is_cut_into_tokens_that_join_to_it() -> None:
    text = "def f(x):\n    return  x + 1  # é!"
    assert "".join(words.pieces(text)) == text
    assert words.pieces("hello big, world") == ["hello", " big", ",", " world"]
    assert words.tokenize(" a a") == [words.tokenize(" a")[0]] * 2


def test_synthetic_answers_are_the_same_for_the_same_seed_and_read_back() -> None:
    ids = words.answer_ids(5, 40)
    assert ids == words.answer_ids(5, 60)[:40] != words.answer_ids(6, 40)
    assert words.tokenize(words.detokenize(ids)) == ids


def test_a_chat_about_a_function_gets_that_function_unsolved() -> None:
    answer = words.answer_text("Complete def add(a, b): please", 1)
    assert "```python\ndef add(a, b):\n    return None\n```" in answer
    assert "def" not in words.answer_text("What is the time?", 1)
