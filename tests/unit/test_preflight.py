"""What is refused before a GPU is taken, rule by rule."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddqueue.domain.configuration import Parallelism, Speculation
from ddqueue.domain.failures import Failure
from ddqueue.domain.preflight.build import Build, flag_findings, renames, version_findings
from ddqueue.domain.preflight.context import LONGER_ALLOWED, context_findings
from ddqueue.domain.preflight.drafting import drafter_findings, drafting_findings, positions_findings
from ddqueue.domain.preflight.finding import Finding, Severity
from ddqueue.domain.preflight.model_shape import ModelShape, shape_of
from ddqueue.domain.preflight.parallel import split_findings
from ddqueue.domain.preflight.proposal import Proposal, arguments_of
from ddqueue.domain.sweep import Point

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
