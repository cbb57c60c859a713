"""Which cell of a sweep file is its control, and how often cells are visited."""

from __future__ import annotations

import pytest

from ddqueue.domain.sweep import Measure
from ddqueue.errors import FileError
from ddqueue.files.examples import example
from ddqueue.files.inventory_file import inventory_from_text
from ddqueue.files.sweep_file import sweep_from_text

REAL = inventory_from_text(example("inventory.yaml"), "inventory.yaml")
SIMULATED = inventory_from_text(example("inventory-sim.yaml"), "inventory-sim.yaml")

TWINS = """\
name: t
model: kimi-k2.6
engine: sglang-ddtree
hosts: [rtx6000]
parallel: [EP8]
cells: [{speculation: none, args.x: 1}, {speculation: none, args.x: '1'}]
measure: {points: [{concurrency: 1, context: 60, output: 16}], control: {cell: %s, every: 2}}
"""
PLAIN = example("demo.yaml").replace("  control: {cell: baseline, every: 3}\n", "")


@pytest.mark.parametrize(
    ("cell", "label"),
    [
        ("baseline", "baseline"),
        ("b8 t4 w2048", "b8 t4 w2048"),
        ("' b8 t4 none '", "b8 t4 none"),
        ("{block_size: 8, budget: 8, topk: 4}", "b8 t4 none"),
        ("{topk: 4, window: 2048, budget: 8, block_size: 8}", "b8 t4 w2048"),
        ("{speculation: none}", "baseline"),
    ],
)
def test_a_control_cell_is_named_or_written_out(cell: str, label: str) -> None:
    text = PLAIN.replace("measure:\n", f"measure:\n  visits: 2\n  control: {{cell: {cell}, every: 3}}\n")
    sweep = sweep_from_text(text, "t.yaml", SIMULATED)
    assert sweep.measure.visits == 2
    assert sweep.measure.control is not None
    [control] = [one for one in sweep.cells if one.cell.hash == sweep.measure.control.cell]
    assert (control.label, sweep.measure.control.every) == (label, 3)
    assert Measure.from_json(sweep.measure.to_json()) == sweep.measure


@pytest.mark.parametrize("none", ["none", "null", "~", "off"])
def test_one_visit_and_no_control_unless_asked(none: str) -> None:
    plain = sweep_from_text(PLAIN, "t.yaml", SIMULATED)
    assert (plain.measure.visits, plain.measure.control) == (1, None)
    text = PLAIN.replace("measure:\n", f"measure:\n  control: {none}\n")
    assert sweep_from_text(text, "t.yaml", SIMULATED).measure == plain.measure


def test_cells_of_one_name_are_told_apart_by_their_settings() -> None:
    with pytest.raises(FileError) as caught:
        sweep_from_text(TWINS % "baseline x=1", "t.yaml", REAL)
    [problem] = caught.value.problems
    assert (problem.line, problem.key, problem.problem) == (7, "measure.control.cell", "baseline x=1 names 2 cells")
    sweep = sweep_from_text(TWINS % "{speculation: none, args.x: '1'}", "t.yaml", REAL)
    assert sweep.measure.control is not None
    assert sweep.measure.control.cell == sweep.cells[1].cell.hash
