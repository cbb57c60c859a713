"""What is refused before a GPU is taken: the service, with real folders and real command lines, and the plan."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from ddqueue.cli.plan import plan as plan_command
from ddqueue.domain.configuration import Cell, Parallelism, Speculation
from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.inventory import Drafter, EngineProfile, Host, Model, SettingTemplate
from ddqueue.domain.preflight.build import Build
from ddqueue.domain.preflight.finding import Finding, refused
from ddqueue.domain.preflight.proposal import arguments_of
from ddqueue.domain.sweep import Point
from ddqueue.engine.command import build as build_command
from ddqueue.errors import FileError
from ddqueue.files.examples import example
from ddqueue.files.inventory_file import inventory_from_text
from ddqueue.files.model_config import look
from ddqueue.ports import LaunchRequest
from ddqueue.services.preflight import Preflight

CONFIGS = Path(__file__).parents[1] / "data" / "model_configs"


def texts(findings: Sequence[Finding]) -> list[str]:
    return [f"{finding.failure or finding.severity}: {finding.text}" for finding in findings]


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
        "build": {"version": "0.5.23", "torch": "2.11.0", "cuda": "13.0", "nccl": None, "revision": None},
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
