"""What is refused before a GPU is taken, rule by rule, then through the service and the plan."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from ddqueue.cli.plan import plan as plan_command
from ddqueue.domain.configuration import Cell, Parallelism, Speculation
from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.inventory import Drafter, EngineProfile, Host, Model, SettingTemplate
from ddqueue.domain.preflight.build import Build, flag_findings, renames, version_findings
from ddqueue.domain.preflight.context import LONGER_ALLOWED, context_findings
from ddqueue.domain.preflight.drafting import drafter_findings, drafting_findings, positions_findings
from ddqueue.domain.preflight.finding import Finding, Severity, refused
from ddqueue.domain.preflight.model_shape import ModelShape, shape_of
from ddqueue.domain.preflight.parallel import split_findings
from ddqueue.domain.preflight.proposal import Proposal, arguments_of
from ddqueue.domain.sweep import Point
from ddqueue.engine.command import build as build_command
from ddqueue.errors import FileError
from ddqueue.files.examples import example
from ddqueue.files.inventory_file import inventory_from_text
from ddqueue.files.model_config import look
from ddqueue.ports import LaunchRequest
from ddqueue.services.preflight import Preflight

CONFIGS = Path(__file__).parents[1] / "data" / "model_configs"
MOE = ModelShape(64, 4, experts=128, moe_intermediate_size=1536, weight_block=128)


def proposal(tp: int = 8, ep: int = 1, pp: int = 1, dp: int = 1, **arguments: str) -> Proposal:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return Proposal(Parallelism(tp, ep, pp, dp), gpus=8, arguments=named)


def texts(findings: Sequence[Finding]) -> list[str]:
    return [f"{finding.failure or finding.severity}: {finding.text}" for finding in findings]


# Heads, experts, blocks


def test_heads_that_tp_does_not_divide() -> None:
    assert texts(split_findings(ModelShape(64, 8), proposal(tp=3))) == [
        "UNSUPPORTED: tp 3 does not divide 64 attention heads; 1, 2, 4, 8 would"
    ]


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_key_value_heads_are_divided_or_repeated(tp: int) -> None:
    assert split_findings(ModelShape(64, 4), proposal(tp=tp)) == []


def test_key_value_heads_that_neither_divide_nor_repeat() -> None:
    assert texts(split_findings(ModelShape(24, 4), proposal(tp=6))) == [
        "UNSUPPORTED: 4 key-value heads can neither be divided by nor repeated over tp 6; 1, 2, 4, 8 would"
    ]


def test_compressed_key_values_have_no_heads_to_divide() -> None:
    config = json.loads((CONFIGS / "kimi-nested.json").read_text())
    assert split_findings(shape_of(config), proposal(tp=8, ep=8)) == []


def test_dp_attention_spreads_the_heads_over_fewer_ranks() -> None:
    shape = ModelShape(4, 4)
    assert split_findings(shape, proposal(tp=8, dp=2, enable_dp_attention="")) == []
    assert texts(split_findings(shape, proposal(tp=8, dp=2))) == [
        "UNSUPPORTED: tp 8 does not divide 4 attention heads; 1, 2, 4 would"
    ]
    assert texts(split_findings(ModelShape(9, 9), proposal(tp=8, dp=2, enable_dp_attention=""))) == [
        "UNSUPPORTED: tp 8 / 2 = 4 does not divide 9 attention heads; 1, 3 would"
    ]


def test_expert_blocks_that_tp_cuts_and_ep_does_not() -> None:
    assert texts(split_findings(MOE, proposal(tp=8))) == [
        "UNSUPPORTED: moe_intermediate_size 1536 / moe tp 8 (tp 8 / ep 1) = 192, which is not a multiple of the "
        "quantisation block of 128; with tp 8, ep 2, 4, 8 would"
    ]
    for ep in (2, 4, 8):
        assert split_findings(MOE, proposal(tp=8, ep=ep)) == []
    assert split_findings(MOE, proposal(tp=4)) == []
    assert split_findings(replace(MOE, weight_block=None), proposal(tp=8)) == []


def test_the_same_in_a_nested_config() -> None:
    shape = shape_of(json.loads((CONFIGS / "deepseek-fp8-nested.json").read_text()))
    assert [finding.failure for finding in split_findings(shape, proposal(tp=8))] == [Failure.UNSUPPORTED]
    assert split_findings(shape, proposal(tp=8, ep=8)) == []


def test_expert_weights_that_are_no_whole_number() -> None:
    shape = ModelShape(24, 24, experts=8, moe_intermediate_size=1000)
    assert texts(split_findings(shape, proposal(tp=6, ep=2))) == [
        "UNSUPPORTED: moe_intermediate_size 1000 / moe tp 3 (tp 6 / ep 2) is no whole number; "
        "with tp 6, ep no size would"
    ]


def test_experts_that_ep_does_not_divide() -> None:
    shape = ModelShape(66, 66, experts=256, moe_intermediate_size=1536, weight_block=128)
    assert texts(split_findings(shape, proposal(tp=3, ep=3))) == [
        "UNSUPPORTED: ep 3 does not divide 256 experts; with tp 3, ep 1 would"
    ]
    assert split_findings(shape, proposal(tp=3, ep=3, ep_num_redundant_experts="2")) == []


def test_ep_that_does_not_divide_tp() -> None:
    assert texts(split_findings(MOE, proposal(tp=8, ep=3))) == [
        "UNSUPPORTED: ep 3 does not divide tp 8; 1, 2, 4, 8 would"
    ]


def test_an_all_to_all_backend_makes_ep_the_same_as_tp() -> None:
    assert split_findings(MOE, proposal(tp=8, moe_a2a_backend="deepep")) == []
    assert split_findings(MOE, proposal(tp=8, moe_a2a_backend="none")) != []


def test_ep_on_a_model_without_experts_is_a_warning() -> None:
    [found] = split_findings(ModelShape(64, 8), proposal(tp=8, ep=8))
    assert (found.severity, found.failure) == (Severity.WARNING, None)
    assert split_findings(ModelShape(), proposal(tp=8, ep=8)) == []


def test_groups_that_are_cut_are_a_warning() -> None:
    shape = ModelShape(64, 8, experts=128, moe_intermediate_size=1536, weight_group=128)
    assert texts(split_findings(shape, proposal(tp=8))) == [
        "warning: moe_intermediate_size 1536 / moe tp 8 = 192 cuts quantisation groups of 128; "
        "not every kernel takes that"
    ]


sizes = st.none() | st.integers(1, 2**40)


@given(
    st.builds(ModelShape, sizes, sizes, sizes, sizes, sizes, sizes, sizes, sizes),
    st.builds(Parallelism, *[st.integers(1, 64)] * 4),
    st.dictionaries(st.sampled_from(["moe-dp-size", "attn-cp-size", "ep-num-redundant-experts"]), st.text(max_size=12)),
)
def test_no_shape_makes_a_rule_raise(shape: ModelShape, parallelism: Parallelism, arguments: dict[str, str]) -> None:
    asked = Proposal(parallelism, 64, Speculation(8, 8, 4, 16), arguments, points=(Point(1, 60, 10),))
    findings = [
        *split_findings(shape, asked),
        *drafter_findings(shape, asked),
        *positions_findings(shape, shape, asked),
        *context_findings(shape, asked),
    ]
    assert all(finding.text for finding in findings)


# Drafting


def drafting(pp: int = 1, block_size: int = 8, window: int | None = None, algorithm: str = "DFLASH") -> Proposal:
    asked = proposal(tp=8 // pp, pp=pp, speculative_algorithm=algorithm)
    return replace(asked, speculation=Speculation(block_size, window=window), trained_block_size=8)


@pytest.mark.parametrize("algorithm", ["DFLASH", "DDTREE", "dflash"])
def test_block_drafters_know_no_pipeline(algorithm: str) -> None:
    assert texts(drafting_findings(drafting(pp=8, algorithm=algorithm))) == [
        f"UNSUPPORTED: {algorithm.upper()} drafts with pp 1 only, and pp 8 is asked"
    ]


def test_other_drafters_and_the_baseline_may_have_one() -> None:
    assert drafting_findings(drafting(pp=8, algorithm="EAGLE")) == []
    assert drafting_findings(proposal(tp=1, pp=8)) == []


def test_a_window_smaller_than_the_block() -> None:
    text = "BAD_ARGS: a draft window of 4 is smaller than the block of 8; 8 or more would do"
    assert texts(drafting_findings(drafting(window=4))) == [text]
    assert drafting_findings(drafting(window=8)) == []
    plain = proposal(
        speculative_algorithm="DFLASH", speculative_num_draft_tokens="8", speculative_draft_window_size="4"
    )
    assert texts(drafting_findings(plain)) == [text]


def test_the_inventory_must_agree_with_the_drafter() -> None:
    trained16 = ModelShape(block_size=16)
    assert texts(drafter_findings(trained16, drafting())) == [
        "BAD_ARGS: the drafter's config.json says block size 16 and the inventory 8: correct the inventory"
    ]
    # Allowed by the sweep: the inventory knows, so the cell carries its mark.
    assert drafter_findings(ModelShape(block_size=8), drafting(block_size=16)) == []
    assert drafter_findings(ModelShape(), drafting(block_size=16)) == []


def test_a_block_size_that_the_inventory_does_not_know() -> None:
    unknown = replace(drafting(block_size=16), trained_block_size=None)
    assert drafter_findings(ModelShape(block_size=16), unknown) == []
    [found] = drafter_findings(ModelShape(block_size=8), unknown)
    assert found.failure is Failure.BAD_ARGS
    assert "block size 16 is out of distribution" in found.text
    assert "write block_size: 8 there and out_of_distribution: allow" in found.text


def test_the_drafters_heads_are_divided_too() -> None:
    assert texts(drafter_findings(ModelShape(4, 2), drafting())) == [
        "UNSUPPORTED: tp 8 does not divide 4 attention heads of the drafter; 1, 2, 4 would"
    ]


def test_a_drafter_with_fewer_positions_is_a_warning() -> None:
    target, drafter = ModelShape(context_length=16384), ModelShape(context_length=4096)
    [found] = positions_findings(target, drafter, drafting())
    assert found.severity is Severity.WARNING
    assert positions_findings(target, drafter, proposal(context_length="4096")) == []


# Context


def test_points_that_do_not_fit() -> None:
    points = (Point(1, 60, 256), Point(1, 3900, 256), Point(32, 4096, 256))
    asked = replace(proposal(), points=points, context_length=262144)
    shape = ModelShape(context_length=4096)
    assert texts(context_findings(shape, asked)) == [
        "BAD_ARGS: C=32 4k: context 4096 + output 256 = 4352 tokens do not fit into 4096 (and 1 more)"
    ]
    assert context_findings(ModelShape(context_length=4352), asked) == []
    assert context_findings(None, asked) == []
    assert [finding.failure for finding in context_findings(None, replace(asked, context_length=4000))] == [
        Failure.BAD_ARGS
    ]


def test_an_asked_context_length_counts_instead_of_the_models() -> None:
    shape = ModelShape(context_length=4096)
    short = replace(proposal(context_length="1024"), points=(Point(1, 1024, 1),))
    assert len(context_findings(shape, short)) == 1
    longer = replace(proposal(context_length="8192"), points=(Point(1, 8000, 100),))
    [found] = context_findings(shape, longer)
    assert LONGER_ALLOWED in found.text
    assert context_findings(shape, replace(longer, environment={LONGER_ALLOWED: "1"})) == []


# Flags


BUILD = Build("0.5.15", "2.11.0+cu130", "13.0", "1ba1089bcd25", {"tp-size": (), "load-format": ("auto", "dummy")})


def test_arguments_by_their_full_names() -> None:
    words = ["python", "-m", "x", "--tp-size", "8", "--enable-metrics", "--seed=-1", "--a", "b c"]
    assert arguments_of(words) == {"tp-size": "8", "enable-metrics": "", "seed": "-1", "a": "b c"}


def test_a_flag_the_build_lacks_even_where_argparse_would_take_its_prefix() -> None:
    assert texts(flag_findings({"tp-size": "8", "load-form": "auto"}, BUILD)) == [
        "BAD_ARGS: this build has no --load-form; nearest is --load-format"
    ]
    assert texts(flag_findings({"zzz": ""}, BUILD)) == ["BAD_ARGS: this build has no --zzz"]


def test_a_value_the_build_does_not_take() -> None:
    assert flag_findings({"load-format": "DUMMY", "tp-size": "x"}, BUILD) == []
    assert texts(flag_findings({"load-format": "gguf"}, BUILD)) == [
        "BAD_ARGS: this build's --load-format does not take 'gguf'; it takes auto, dummy"
    ]


def test_an_algorithm_the_build_lacks() -> None:
    some = replace(BUILD, flags={"speculative-algorithm": ("EAGLE", "DFLASH")})
    assert some.algorithms == ("EAGLE", "DFLASH")
    assert texts(flag_findings({"speculative-algorithm": "DDTREE"}, some)) == [
        "UNSUPPORTED: this build has no DDTREE; it has EAGLE, DFLASH"
    ]
    silent = replace(BUILD, flags={"speculative-algorithm": ()})
    assert flag_findings({"speculative-algorithm": "DDTREE"}, silent) == []


def test_a_build_that_did_not_say_its_flags_is_noted() -> None:
    [found] = flag_findings({"anything": ""}, Build(problem="it gave no usage within 5 s"))
    assert (found.severity, found.text) == (Severity.NOTE, "flags not checked: it gave no usage within 5 s")


def test_renamed_arguments_follow_what_the_build_has() -> None:
    new = Build(flags={"cuda-graph-max-bs-decode": (), "speculative-num-draft-tokens": ()})
    old = Build(flags={"cuda-graph-max-bs": ()})
    both = Build(flags={"cuda-graph-max-bs": (), "cuda-graph-max-bs-decode": ()})
    asked = {"cuda-graph-max-bs": "32", "speculative-dflash-block-size": "8", "no-such": ""}
    assert renames(asked, new, {}) == {
        "cuda-graph-max-bs": "cuda-graph-max-bs-decode",
        "speculative-dflash-block-size": "speculative-num-draft-tokens",
    }
    assert renames({"cuda-graph-max-bs-decode": "32"}, old, {}) == {"cuda-graph-max-bs-decode": "cuda-graph-max-bs"}
    assert renames(asked, both, {}) == {}
    assert renames({"mine": ""}, Build(flags={"theirs": ()}), {"mine": "theirs"}) == {"mine": "theirs"}
    assert renames(asked, Build(problem="unknown"), {}) == {}


@pytest.mark.parametrize(
    ("expects", "expected"),
    [
        ({"version": "0.5.15", "torch": "2.11", "cuda": "13", "revision": "1ba1089"}, []),
        ({"version": "0.5.1"}, ["BAD_ARGS: version 0.5.1 is expected here and 0.5.15 is installed"]),
        ({"torch": "2.1"}, ["BAD_ARGS: torch 2.1 is expected here and 2.11.0+cu130 is installed"]),
    ],
)
def test_the_installation_that_is_expected(expects: dict[str, str], expected: list[str]) -> None:
    assert texts(version_findings(expects, BUILD)) == expected


def test_an_expectation_that_cannot_be_checked_is_a_warning() -> None:
    [found] = version_findings({"revision": "abc"}, Build("0.5.15"))
    assert found.severity is Severity.WARNING


# The service, with real folders and real command lines

PROFILE = EngineProfile(
    "dflash",
    {"*": ("/opt/sglang/bin/python", "-m", "sglang.launch_server")},
    {
        "speculation": SettingTemplate(
            ("--speculative-algorithm", "DFLASH", "--speculative-draft-model-path", "{drafter}")
        ),
        "block_size": SettingTemplate(("--speculative-dflash-block-size", "{value}")),
        "window": SettingTemplate(("--speculative-draft-window-size", "{value}")),
    },
    args={"cuda-graph-max-bs": 32},
)
FLAGS = (
    "model-path",
    "host",
    "port",
    "tp-size",
    "pp-size",
    "weight-version",
    "random-seed",
    "load-format",
    "cuda-graph-max-bs-decode",
    "speculative-algorithm",
    "speculative-draft-model-path",
    "speculative-num-draft-tokens",
    "speculative-draft-window-size",
)
NEW_BUILD = Build("0.5.23", "2.11.0", "13.0", None, dict.fromkeys(FLAGS, ()))


def model(path: Path, config: str, *names: str) -> str:
    path.mkdir()
    shutil.copy(CONFIGS / config, path / "config.json")
    for name in names:
        (path / name).write_text("")
    return str(path)


@pytest.fixture
def request_(tmp_path: Path) -> LaunchRequest:
    target = model(tmp_path / "target", "qwen3-dense.json", "model.safetensors", "tokenizer.json")
    drafter = model(tmp_path / "drafter", "drafter-block8.json", "model.safetensors")
    return LaunchRequest(
        host=Host("rtx6000", 8, "RTX PRO 6000"),
        model=Model("toy", {"*": target}, Drafter({"*": drafter}, 8)),
        profile=PROFILE,
        cell=Cell("toy", "dflash", Speculation(8, window=2048)),
        parallelism=Parallelism(tp=4),
        tag="t",
        log_path="log",
        lock_fd=3,
        lock_path="lock",
        random_seed=1,
    )


def preflight(build: Build = NEW_BUILD, on_host: bool = True) -> Preflight:
    return Preflight(lambda request: build_command(request, 1).argv, lambda request: build, look, on_host)


POINTS = (Point(1, 60, 256),)


def test_what_passes_is_launched_by_the_builds_own_names(request_: LaunchRequest) -> None:
    examined = preflight().check(request_, POINTS)
    assert examined.findings == ()
    assert examined.provenance == {
        "build": {"version": "0.5.23", "torch": "2.11.0", "cuda": "13.0", "revision": None},
        "renamed": {
            "cuda-graph-max-bs": "cuda-graph-max-bs-decode",
            "speculative-dflash-block-size": "speculative-num-draft-tokens",
        },
        "preflight": [],
    }
    said = arguments_of(build_command(examined.request, 1).argv)
    assert (said["cuda-graph-max-bs-decode"], said["speculative-num-draft-tokens"]) == ("32", "8")
    assert not {"cuda-graph-max-bs", "speculative-dflash-block-size"} & set(said)
    assert examined.request.cell.hash == request_.cell.hash


def test_every_error_is_evidence_and_the_first_names_the_class(request_: LaunchRequest) -> None:
    cell = Cell("toy", "dflash", Speculation(8, window=2048), args={"no-such-flag": 1})
    bad = dataclasses.replace(request_, cell=cell, parallelism=Parallelism(tp=3))
    with pytest.raises(AttemptFailure) as caught:
        preflight().check(bad, (Point(1, 16384, 1),))
    assert caught.value.failure is Failure.BAD_ARGS
    for text in (
        "no --no-such-flag",
        "tp 3 does not divide 4 attention heads;",
        "of the drafter",
        "do not fit into 16384",
    ):
        assert text in caught.value.evidence


def test_a_missing_model_is_an_error_on_the_host_and_a_note_elsewhere(request_: LaunchRequest, tmp_path: Path) -> None:
    gone = dataclasses.replace(request_, model=Model("toy", {"*": str(tmp_path / "gone")}, request_.model.drafter))
    with pytest.raises(AttemptFailure) as caught:
        preflight().check(gone, POINTS)
    assert caught.value.failure is Failure.MODEL_NOT_FOUND
    assert texts(preflight(on_host=False).examine(gone, POINTS).findings) == [
        f"note: not checked here: no usable config.json at {tmp_path}/gone"
    ]


def test_a_config_json_alone_is_enough_to_plan_with(request_: LaunchRequest, tmp_path: Path) -> None:
    alone = model(tmp_path / "alone", "qwen3-dense.json")
    there = dataclasses.replace(
        request_, model=Model("toy", {"*": alone}, request_.model.drafter), parallelism=Parallelism(tp=8)
    )
    assert texts(preflight(on_host=False).examine(there, POINTS).findings) == [
        "UNSUPPORTED: tp 8 does not divide 4 attention heads; 1, 2, 4 would",
        "UNSUPPORTED: tp 8 does not divide 4 attention heads of the drafter; 1, 2, 4 would",
    ]


def test_dummy_weights_need_no_files(request_: LaunchRequest, tmp_path: Path) -> None:
    bare = Model(
        "toy",
        {"*": model(tmp_path / "bare", "qwen3-dense.json", "tokenizer.json")},
        Drafter({"*": model(tmp_path / "bare-drafter", "drafter-block8.json")}, 8),
    )
    real = dataclasses.replace(request_, model=bare)
    assert texts(preflight().examine(real, POINTS).findings) == [
        f"MODEL_NOT_FOUND: {tmp_path}/bare has no weight file",
        f"MODEL_NOT_FOUND: {tmp_path}/bare-drafter has no weight file",
    ]
    dummy = dataclasses.replace(real, cell=dataclasses.replace(real.cell, args={"load-format": "dummy"}))
    assert preflight().examine(dummy, POINTS).findings == ()


def test_a_simulated_engine_has_no_files_and_keeps_the_other_rules(request_: LaunchRequest) -> None:
    simulated = dataclasses.replace(
        request_,
        profile=dataclasses.replace(PROFILE, simulated=True),
        model=Model("toy", {"*": "/simulated/toy"}, Drafter({"*": "/simulated/draft"}, 8), context_length=300),
        parallelism=Parallelism(pp=8),
    )
    assert texts(preflight().examine(simulated, POINTS).findings) == [
        "UNSUPPORTED: DFLASH drafts with pp 1 only, and pp 8 is asked",
        "BAD_ARGS: C=1 60: context 60 + output 256 = 316 tokens do not fit into 300",
    ]


def test_a_profile_may_know_better(request_: LaunchRequest) -> None:
    trusted = dataclasses.replace(
        request_, profile=dataclasses.replace(PROFILE, preflight=False), parallelism=Parallelism(pp=2)
    )
    examined = preflight().check(trusted, POINTS)
    assert examined.provenance["preflight"] == ["warning: DFLASH drafts with pp 1 only, and pp 2 is asked"]


def test_a_setting_without_a_template_is_a_finding(request_: LaunchRequest) -> None:
    cell = Cell("toy", "dflash", Speculation(8, budget=16))
    assert preflight().examine(dataclasses.replace(request_, cell=cell), POINTS).findings == (
        refused(Failure.UNSUPPORTED, "engine dflash has no way to set budget"),
    )


def test_the_inventory_says_what_a_build_is() -> None:
    text = (
        "hosts: {a: {gpus: 1, gpu: x}}\nmodels: {m: {path: /m}}\nengines:\n  e:\n    command: [python]\n"
        "    expects: {version: 0.5.15, torch: 2.10}\n    renamed: {old_name: new-name}\n    preflight: false\n"
    )
    engine = inventory_from_text(text, "i.yaml").engine("e")
    assert engine.expects == {"version": "0.5.15", "torch": "2.10"}
    assert engine.renamed == {"old-name": "new-name"}
    assert not engine.preflight
    assert inventory_from_text(example("inventory.yaml"), "i.yaml").engine("sglang-dflash").preflight


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("expects: {sglang: 1}", "unknown key 'sglang'"),
        ("expects: {version: [1]}", "no plain value"),
        ("renamed: {a: --b}", "has leading dashes"),
        ("renamed: {a: null}", "no plain value"),
        ("preflight: perhaps", "neither true nor false"),
    ],
)
def test_mistakes_in_those_keys(line: str, problem: str) -> None:
    text = (
        f"hosts: {{a: {{gpus: 1, gpu: x}}}}\nmodels: {{m: {{path: /m}}}}\nengines:\n  e:\n    command: [p]\n    {line}"
    )
    with pytest.raises(FileError, match=problem) as caught:
        inventory_from_text(text, "i.yaml")
    assert [found.line for found in caught.value.problems] == [6]


# The plan


def test_plan_marks_refused_jobs_and_still_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDQUEUE_HOME", str(tmp_path / "home"))
    inventory, sweep = tmp_path / "inventory.yaml", tmp_path / "sweep.yaml"
    inventory.write_text(example("inventory-sim.yaml"))
    sweep.write_text(
        "name: t\nmodel: kimi-k2.6\nengine: sim\nhosts: [sim-b300]\nparallel: [TP8, PP8]\nbaseline: true\n"
        "cells: [{block_size: 8, budget: 8, topk: 4}]\nmeasure: {points: [{concurrency: 1, context: 60, output: 8}]}\n"
    )
    arguments = [str(sweep), "--inventory", str(inventory)]
    shown = CliRunner().invoke(plan_command, arguments, standalone_mode=False)
    assert shown.exception is None
    assert "UNSUPPORTED" in shown.output.split("On every server")[0]
    assert (
        "refused: UNSUPPORTED: DDTREE drafts with pp 1 only, and pp 8 is asked (sim-b300 PP8, cell 2)" in shown.output
    )

    value = json.loads(CliRunner().invoke(plan_command, [*arguments, "--json"], standalone_mode=False).stdout)
    [host] = value["hosts"]
    assert (value["jobs"], value["restarts"]) == (4, 3)
    [refusal] = [job for job in host["jobs"] if job["findings"]]
    assert (refusal["parallelism"], refusal["expected_s"]) == ("PP8", 0.0)
    assert refusal["findings"][0]["failure"] == "UNSUPPORTED"
    assert "pipeline with speculation" not in [warning["caution"] for warning in value["warnings"]]


def test_plan_checks_with_a_config_json_where_it_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDQUEUE_HOME", str(tmp_path / "home"))
    path = model(tmp_path / "kimi", "qwen3-moe-fp8.json")
    inventory, sweep = tmp_path / "inventory.yaml", tmp_path / "sweep.yaml"
    inventory.write_text(
        f"hosts:\n  box: {{gpus: 8, gpu: B300}}\nmodels:\n  m: {{path: {path}}}\n"
        "engines:\n  e: {command: [/nowhere/python, -m, sglang.launch_server]}\n"
    )
    sweep.write_text(
        "name: t\nmodel: m\nengine: e\nhosts: [box]\nparallel: [TP8, EP8]\nbaseline: true\n"
        "measure: {points: [{concurrency: 1, context: 60, output: 8}]}\n"
    )
    shown = CliRunner().invoke(plan_command, [str(sweep), "--inventory", str(inventory)], standalone_mode=False)
    assert shown.exception is None, shown.output
    assert "refused: UNSUPPORTED: moe_intermediate_size 1536 / moe tp 8 (tp 8 / ep 1) = 192" in shown.output
    assert "(box TP8, cell 1)" in shown.output
    assert "note: flags not checked: /nowhere/python is not on this machine (box TP8; box EP8)" in shown.output


def test_plan_notes_what_is_installed_on_the_hosts_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDQUEUE_HOME", str(tmp_path / "home"))
    inventory, sweep = tmp_path / "inventory.yaml", tmp_path / "sweep.yaml"
    inventory.write_text(
        "hosts:\n  box: {gpus: 8, gpu: B300}\nmodels:\n  m: {path: /m}\n"
        "engines:\n  e: {command: ['{python}', -m, nosuchpackage.launch_server]}\n"
    )
    sweep.write_text(
        "name: t\nmodel: m\nengine: e\nhosts: [box]\nparallel: [TP8]\nbaseline: true\n"
        "measure: {points: [{concurrency: 1, context: 60, output: 8}]}\n"
    )
    shown = CliRunner().invoke(plan_command, [str(sweep), "--inventory", str(inventory)], standalone_mode=False)
    assert shown.exception is None, shown.output
    assert "No module named 'nosuchpackage'), on this machine (box TP8)" in shown.output
    assert "refused" not in shown.output
