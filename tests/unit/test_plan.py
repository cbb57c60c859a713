"""What a plan counts, expects and warns of; and the two commands that need no server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from ddqueue.cli.init import init
from ddqueue.cli.plan import plan as plan_command
from ddqueue.domain.failures import Failure
from ddqueue.domain.planning import REAL, SIMULATED, Assumptions, Caution, Plan, expected_job_s, expected_repeat_s
from ddqueue.domain.preflight.finding import refused
from ddqueue.domain.sweep import Coding, Control, Measure, Point, Repeats, Sweep
from ddqueue.errors import FileError, UsageError
from ddqueue.files.examples import example
from ddqueue.files.inventory_file import inventory_from_text
from ddqueue.files.sweep_file import read_sweep, sweep_from_text
from ddqueue.ports import LaunchRequest
from ddqueue.services.plan import plan
from ddqueue.services.preflight import Examined

ROOT = Path(__file__).parents[2]
INVENTORY = inventory_from_text(example("inventory.yaml"), "inventory.yaml")
ROUND = Assumptions(
    start_up_s=100, stop_s=10, prefill_tok_s=1000, decode_tok_s=10, coding_problems=5, coding_answer_tok=100
)


def sweep_of(**lines: str) -> Sweep:
    """A small sweep; each keyword replaces a key's line."""
    base = {
        "name": "t",
        "model": "kimi-k2.6",
        "engine": "sglang-ddtree",
        "hosts": "[rtx6000]",
        "parallel": "[EP8]",
        "baseline": "true",
        "cells": "[{block_size: 8, budget: 16, topk: 4, window: 2048}]",
        "measure": "{points: [{concurrency: 32, context: 60, output: 8}], coding: {suite: core5, concurrency: [1, 8]}}",
    }
    text = "".join(f"{key}: {value}\n" for key, value in {**base, **lines}.items())
    return sweep_from_text(text, "t.yaml", INVENTORY)


def cautions_of(sweep: Sweep) -> list[Caution]:
    return [warning.caution for warning in plan(sweep, INVENTORY).warnings]


def test_the_shipped_sweep_counts_restarts_outside_and_points_inside() -> None:
    found = plan(read_sweep(ROOT / "sweeps/ddtree-block8.yaml", INVENTORY), INVENTORY)
    assert [(host.host, host.restarts, host.points_per_server) for host in found.hosts] == [
        ("rtx6000", 8, 5),
        ("b300", 8, 5),
    ]
    assert (found.jobs, found.control_jobs, found.visits, found.control_every) == (16, 6, 1, 3)
    assert found.points == ("C=1 60", "C=1 1k", "C=1 4k", "C=32 60", "C=32 4k")
    assert {job.parallelism for job in found.hosts[0].jobs} == {"EP8"}
    assert [(job.label, job.visit, job.control) for job in found.hosts[0].jobs] == [
        ("baseline", 1, True),
        ("b8 t4 w2048", 1, False),
        ("b8 t4 none", 1, False),
        ("baseline", 2, True),
        ("b4 t4 w2048", 1, False),
        ("b12 t6 w2048", 1, False),
        ("b16 t4 w2048", 1, False),
        ("baseline", 3, True),
    ]
    assert [warning.caution for warning in found.warnings] == [Caution.CHAIN_BUDGET]
    assert found.warnings[0].text.endswith("b4 t4 w2048 (budget 4, depth limit 7)")


def test_a_repeat_is_all_prompts_in_turn_and_all_answers_side_by_side() -> None:
    assert expected_repeat_s(Point(concurrency=4, context=500, output=50), ROUND) == 4 * 500 / 1000 + 50 / 10


def test_a_job_is_its_start_warm_ups_repeats_coding_and_stop() -> None:
    points = (Point(1, 1000, 10), Point(4, 500, 50))
    assert expected_job_s(Measure(points), 3, ROUND) == 100 + 4 * (2 + 7) + 10
    # Five problems one by one are five answers' time; four at once need two waves.
    assert expected_job_s(Measure(points, coding=Coding("core5", (1, 4))), 3, ROUND) == 100 + 36 + (5 + 2) * 10 + 10


def test_expected_counts_the_fewest_repeats_longest_the_most_and_hosts_work_side_by_side() -> None:
    sweep = sweep_of(hosts="[rtx6000, b300]", parallel="{rtx6000: [EP8, TP8], b300: [TP8]}")
    found = plan(sweep, INVENTORY)
    fewest, most = expected_job_s(sweep.measure, 3, REAL), expected_job_s(sweep.measure, 10, REAL)
    assert [host.restarts for host in found.hosts] == [4, 2]
    assert found.hosts[0].expected_s == pytest.approx(4 * fewest)
    assert found.hosts[1].longest_s == pytest.approx(2 * most)
    assert found.expected_s == pytest.approx(4 * fewest)
    assert found.longest_s == pytest.approx(4 * most)
    assert found.assumptions == REAL


def test_an_earlier_attempt_replaces_the_assumption_for_that_job_only() -> None:
    sweep = sweep_of()
    baseline, tree = sweep.cells
    found = plan(sweep, INVENTORY, {(tree.cell.hash, "rtx6000", "EP8"): 123.0, (tree.cell.hash, "b300", "TP8"): 9.0})
    assert [(job.cell, job.measured) for job in found.hosts[0].jobs] == [
        (baseline.cell.hash, False),
        (tree.cell.hash, True),
    ]
    assert found.hosts[0].jobs[1].expected_s == 123.0
    assert found.hosts[0].expected_s == pytest.approx(123.0 + expected_job_s(sweep.measure, 3, REAL))


def test_a_sweep_with_nothing_to_warn_of() -> None:
    assert cautions_of(sweep_of()) == []


@pytest.mark.parametrize(
    ("lines", "caution"),
    [
        ({"cells": "[{block_size: 8, budget: 7}]"}, Caution.CHAIN_BUDGET),
        (
            {"cells": "[{block_size: 16, budget: 32}]", "out_of_distribution": "allow", "hypothesis": "it crashes"},
            Caution.OUT_OF_DISTRIBUTION,
        ),
        ({"parallel": "[PP8]"}, Caution.PIPELINE_WITH_SPECULATION),
        ({"cells": "[{speculation: none}]"}, Caution.ONE_CELL),
        ({"measure": "{points: [{concurrency: 1, context: 60, output: 16}]}"}, Caution.NO_CODING),
    ],
)
def test_each_caution_alone(lines: dict[str, str], caution: Caution) -> None:
    assert cautions_of(sweep_of(**lines)) == [caution]


def test_many_cells_started_once_say_nothing_about_the_noise_between_starts() -> None:
    cells = "[{block_size: 8, budget: 8}, {block_size: 8, budget: 12}, {block_size: 8, budget: 16}]"
    sweep = sweep_of(cells=cells)
    [warning] = plan(sweep, INVENTORY).warnings
    assert warning.caution is Caution.NO_CONTROL
    assert warning.text.startswith("4 cells, each started once, and no control cell: the noise floor is unknown")
    baseline = sweep.cells[0].cell.hash
    for measure in (replace(sweep.measure, visits=2), replace(sweep.measure, control=Control(baseline, 3))):
        assert cautions_of(replace(sweep, measure=measure)) == []
    assert cautions_of(replace(sweep, cells=sweep.cells[:3])) == []


def test_visits_and_control_jobs_count_in_jobs_restarts_and_hours() -> None:
    sweep = sweep_of(hosts="[rtx6000, b300]", parallel="{rtx6000: [EP8, TP8], b300: [TP8]}")
    tree = sweep.cells[1].cell.hash
    found = plan(
        replace(sweep, measure=replace(sweep.measure, visits=4, control=Control(tree, 2))),
        INVENTORY,
        {(tree, "b300", "TP8"): 100.0},
    )
    # Of four visits of the baseline and the tree as control, so at least four times: C b C b b C b C.
    each = expected_job_s(sweep.measure, 3, REAL)
    assert [(host.host, host.restarts) for host in found.hosts] == [("rtx6000", 16), ("b300", 8)]
    assert found.control_jobs == 12
    assert found.hosts[0].expected_s == pytest.approx(16 * each)
    assert found.hosts[1].expected_s == pytest.approx(4 * each + 4 * 100.0)


def test_every_visit_of_a_cell_is_examined_once_and_refused_alike() -> None:
    sweep = sweep_of()
    seen: list[str] = []

    def examine(request: LaunchRequest, _: tuple[Point, ...]) -> Examined:
        seen.append(request.cell.hash)
        unfit = () if request.cell.is_baseline else (refused(Failure.UNSUPPORTED, "cannot run"),)
        return Examined(request, unfit)

    found = plan(replace(sweep, measure=replace(sweep.measure, visits=3)), INVENTORY, examine=examine)
    assert seen == [one.cell.hash for one in sweep.cells]
    assert (found.jobs, found.hosts[0].restarts) == (6, 3)


def test_without_a_baseline_speed_and_coding_have_nothing_to_compare_with() -> None:
    cells = "[{block_size: 8, budget: 16}, {block_size: 8, budget: 12}]"
    assert cautions_of(sweep_of(baseline="false", cells=cells)) == [
        Caution.NO_BASELINE,
        Caution.CODING_WITHOUT_BASELINE,
    ]
    assert cautions_of(sweep_of(baseline="false", cells=f"[{{speculation: none}}, {cells[1:]}")) == []


def test_few_repeats_and_coding_alone_where_points_are_under_load() -> None:
    sweep = sweep_of()
    measure = replace(sweep.measure, repeats=Repeats(2, 10), coding=Coding("core5", (1,)))
    assert cautions_of(replace(sweep, measure=measure)) == [Caution.FEW_REPEATS, Caution.CODING_WITHOUT_LOAD]


def test_a_long_list_in_a_warning_is_cut() -> None:
    cells = (
        "["
        + ", ".join(f"{{block_size: 8, budget: {budget}, topk: {topk}}}" for budget in (1, 2, 3, 4) for topk in (1, 2))
        + "]"
    )
    [warning, _] = plan(sweep_of(cells=cells), INVENTORY).warnings
    assert warning.text.endswith("b3 t2 none (budget 3, depth limit 7) and 2 more")


def test_the_inventory_must_have_what_the_sweep_names() -> None:
    with pytest.raises(UsageError, match=r"inventory\.yaml has no host 'gone'"):
        plan(replace(sweep_of(), hosts=("gone",), parallel={"gone": ()}), INVENTORY)


def test_the_demo_plan_rests_on_simulated_assumptions() -> None:
    inventory = inventory_from_text(example("inventory-sim.yaml"), "inventory-sim.yaml")
    found: Plan = plan(sweep_from_text(example("demo.yaml"), "demo.yaml", inventory), inventory)
    assert found.simulated
    assert found.assumptions == SIMULATED
    assert (found.jobs, found.control_jobs) == (16, 6)


# The commands


def test_init_writes_files_that_plan_accepts_and_never_overwrites(tmp_path: Path) -> None:
    written = CliRunner().invoke(init, [str(tmp_path / "new")], standalone_mode=False)
    assert written.exception is None
    inventory, sweep = tmp_path / "new/inventory.yaml", tmp_path / "new/sweeps/example.yaml"
    assert f"wrote {inventory}\nwrote {sweep}\n" in written.output

    planned = CliRunner().invoke(plan_command, [str(sweep), "--inventory", str(inventory)], standalone_mode=False)
    assert planned.exception is None
    assert "11 cells, 26 jobs, 6 of them control" in planned.output
    assert "warning" not in planned.output

    inventory.unlink()
    sweep.write_text("mine")
    refused = CliRunner().invoke(init, [str(tmp_path / "new")], standalone_mode=False)
    assert isinstance(refused.exception, UsageError)
    assert refused.exception.exit_code == 2
    assert str(sweep) in str(refused.exception)
    assert sweep.read_text() == "mine"
    assert not inventory.exists()

    forced = CliRunner().invoke(init, [str(tmp_path / "new"), "--force"], standalone_mode=False)
    assert forced.exception is None
    assert sweep.read_text() == example("example.yaml")


def test_init_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = CliRunner().invoke(init, [str(tmp_path / "file")], standalone_mode=False)
    assert isinstance(refused.exception, UsageError)
    assert "cannot be written" in str(refused.exception)


def test_plan_shows_cells_hosts_times_and_warnings(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(example("inventory.yaml"))
    shown = CliRunner().invoke(
        plan_command,
        [str(ROOT / "sweeps/ddtree-block16.yaml"), "--inventory", str(inventory)],
        standalone_mode=False,
    )
    assert shown.exception is None
    assert "kimi-k26-ddtree-block16: kimi-k2.6 on sglang-ddtree, 3 cells, 6 jobs" in shown.output
    assert "rtx6000 EP8" in shown.output
    assert "b300 TP8" in shown.output
    assert "4d8f8b14fa8c  bs16 b16 t4 w2048 (out of distribution)" in shown.output
    assert "Assumed, not measured: start 600 s" in shown.output
    assert "warning: the drafter was not trained for this block size" in shown.output


def test_plan_says_the_order_and_counts_each_cell_once(tmp_path: Path) -> None:
    inventory, sweep = tmp_path / "inventory.yaml", tmp_path / "sweep.yaml"
    inventory.write_text(example("inventory.yaml"))
    sweep.write_text(
        sweep_of(
            hosts="[rtx6000, b300]",
            cells="[{block_size: 8, budget: 8}, {block_size: 8, budget: 12}]",
            measure="{points: [{concurrency: 1, context: 60, output: 8}], visits: 2, "
            "control: {cell: baseline, every: 2}}",
        ).file_text
    )
    shown = CliRunner().invoke(plan_command, [str(sweep), "--inventory", str(inventory)], standalone_mode=False)
    lines = shown.output.splitlines()
    assert lines[0] == "t: kimi-k2.6 on sglang-ddtree, 3 cells, 2 visits, 14 jobs, 6 of them control"
    assert [line.split("  ")[0] for line in lines[3:6]] == ["1", "2", "3"]
    assert [line.count("3 x ") + line.count("2 x ") for line in lines[3:6]] == [2, 2, 2]
    start = lines.index("Order, by the numbers above: 1c 2 3 1c 3 2 1c")
    assert lines[start + 1 : start + 3] == [
        "  c: the control cell, first, last and after at most 2 others",
        "  every second round runs backwards, so that a steady drift of the box cancels",
    ]


def test_plan_as_json(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(example("inventory.yaml"))
    shown = CliRunner().invoke(
        plan_command,
        [str(ROOT / "sweeps/ddtree-block8.yaml"), "--inventory", str(inventory), "--json"],
        standalone_mode=False,
    )
    value = json.loads(shown.output)
    assert (value["jobs"], value["control_jobs"], value["restarts"], value["folded"]) == (16, 6, 16, 0)
    assert (value["visits"], value["control_every"]) == (1, 3)
    assert value["hosts"][1]["jobs"][0]["label"] == "baseline"
    assert value["warnings"][0]["caution"] == "chain budget"
    assert value["assumptions"]["start_up_s"] == 600


def test_plan_of_a_bad_file_is_a_usage_error(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(example("inventory.yaml"))
    shown = CliRunner().invoke(
        plan_command, [str(tmp_path / "none.yaml"), "--inventory", str(inventory)], standalone_mode=False
    )
    assert isinstance(shown.exception, FileError)
    assert shown.exception.exit_code == 2
