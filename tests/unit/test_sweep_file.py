"""Sweep files: what each means, what each mistake is told, and that nothing else can come out."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ddqueue.domain.configuration import Cell, Parallelism, Speculation
from ddqueue.domain.inventory import Inventory
from ddqueue.domain.latency_limits import LatencyLimits
from ddqueue.domain.sweep import Coding, Measure, OutOfDistribution, Point, Repeats, Sweep
from ddqueue.errors import FileError
from ddqueue.files.examples import example
from ddqueue.files.inventory_file import inventory_from_text
from ddqueue.files.sweep_file import read_sweep, sweep_from_text
from ddqueue.files.yaml12 import MAX_BYTES, resolve

ROOT = Path(__file__).parents[2]
GOOD = ROOT / "tests/data/sweeps/good"
BAD = ROOT / "tests/data/sweeps/bad"
EXPECTED = tomllib.loads((BAD / "expected.toml").read_text())

REAL = inventory_from_text(example("inventory.yaml"), "inventory.yaml")
SIMULATED = inventory_from_text(example("inventory-sim.yaml"), "inventory-sim.yaml")

CELLS = """\
name: t
model: kimi-k2.6
engine: sglang-ddtree
hosts: [rtx6000]
parallel: [EP8]
measure: {points: [{concurrency: 1, context: 60, output: 16}]}
"""


def labels(sweep: Sweep) -> list[str]:
    return [one.label for one in sweep.cells]


def good(name: str) -> Sweep:
    return read_sweep(GOOD / f"{name}.yaml", REAL)


def problems_of(text: str, inventory: Inventory = REAL) -> list[tuple[int, str, str]]:
    with pytest.raises(FileError) as caught:
        sweep_from_text(text, "t.yaml", inventory)
    return [(problem.line, problem.key, problem.problem) for problem in caught.value.problems]


def with_goodput(value: str) -> str:
    return CELLS.replace("output: 16}]", f"output: 16}}], goodput: {value}")


@pytest.mark.parametrize(
    ("value", "limits"),
    [
        ("{ttft_ms: 2000, tpot_ms: 50}", LatencyLimits(2000.0, 50.0)),
        ("{e2e_ms: 1500.5}", LatencyLimits(e2e_ms=1500.5)),
        ("null", None),
    ],
)
def test_limits_for_goodput(value: str, limits: LatencyLimits | None) -> None:
    measure = sweep_from_text(f"{with_goodput(value)}baseline: true\n", "t.yaml", REAL).measure
    assert measure.goodput == limits
    assert Measure.from_json(measure.to_json()) == measure


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("{}", ("measure.goodput", "goodput without a limit is the throughput")),
        ("{ttft_ms: 0}", ("measure.goodput.ttft_ms", "0 is no time in milliseconds")),
        ("{tpot_ms: fast}", ("measure.goodput.tpot_ms", "fast is no time in milliseconds")),
        ("{itl_ms: 5}", ("measure.goodput.itl_ms", "unknown key 'itl_ms'")),
    ],
)
def test_limits_for_goodput_that_are_none(value: str, problem: tuple[str, str]) -> None:
    assert problem in [found[1:] for found in problems_of(f"{with_goodput(value)}baseline: true\n")]


# Bad files


def test_every_bad_file_has_its_expectation() -> None:
    assert {path.name for path in BAD.glob("*.yaml")} == set(EXPECTED)
    assert len(EXPECTED) >= 30


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_bad_file_is_told_every_problem_with_line_key_and_remedy(name: str) -> None:
    with pytest.raises(FileError) as caught:
        read_sweep(BAD / name, REAL)
    found = [[problem.line, problem.key, problem.problem, problem.remedy] for problem in caught.value.problems]
    assert found == EXPECTED[name]
    assert {problem.file for problem in caught.value.problems} == {str(BAD / name)}
    assert caught.value.exit_code == 2


def test_a_grid_too_large_to_build_is_refused_by_its_size() -> None:
    axes = "".join(f"  args.x{index}: [{', '.join(map(str, range(100)))}]\n" for index in range(40))
    assert problems_of(f"{CELLS}grid:\n{axes}") == [
        (7, "grid", f"{100**40:,} cells are more than the limit of 256"),
    ]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"nowhere\.yaml:1: there is no such file\n  Check the path") as caught:
        read_sweep(tmp_path / "nowhere.yaml", REAL)
    assert len(caught.value.problems) == 1


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="this is a directory\n  Name a sweep file in it"):
        read_sweep(tmp_path, REAL)


def test_a_huge_file(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(FileError, match="it is larger than 256 KiB"):
        read_sweep(path, REAL)


def test_a_path_that_holds_a_nul_character() -> None:
    with pytest.raises(FileError, match="it cannot be read: embedded null byte"):
        read_sweep(Path("a\0b"), REAL)


def test_a_real_engine_on_a_simulated_host_and_the_other_way_round() -> None:
    both = inventory_from_text(
        example("inventory.yaml")
        .replace("hosts:\n", "hosts:\n  box: {gpus: 8, gpu: none, simulated: pcie}\n")
        .replace("engines:\n", 'engines:\n  sim: {command: ["{python}"], simulated: true}\n'),
        "both.yaml",
    )
    text = CELLS + "baseline: true\n"
    assert problems_of(text.replace("[rtx6000]", "[rtx6000, box]"), both) == [
        (4, "hosts[1]", "box is simulated and engine sglang-ddtree is real")
    ]
    assert problems_of(text.replace("sglang-ddtree", "sim"), both) == [
        (4, "hosts[0]", "engine sim is simulated and rtx6000 is a real host")
    ]


def test_what_the_inventory_lacks_on_a_host_is_told_at_that_host() -> None:
    lacking = inventory_from_text(
        "hosts: {a: {gpus: 8, gpu: x}, b: {gpus: 8, gpu: x}}\n"
        "models: {m: {path: {a: /m}, drafter: {path: {a: /d}}}, plain: {path: /m}}\n"
        "engines: {e: {command: {a: [x]}, settings: {speculation: {flags: [--x]}, block_size: {}}}}\n",
        "lacking.yaml",
    )
    text = (
        "name: t\nmodel: m\nengine: e\nhosts: [a, b]\nparallel: [TP8]\ngrid: {block_size: 8}\n"
        "measure: {points: [{concurrency: 1, context: 60, output: 16}]}\n"
    )
    assert problems_of(text, lacking) == [
        (4, "hosts[1]", "engine e has no command for b"),
        (4, "hosts[1]", "model m has no path on b"),
        (4, "hosts[1]", "the drafter of m has no path on b"),
        (6, "grid.block_size", "engine e always runs the drafter's own block size (unknown: say it in the inventory)"),
    ]
    assert (6, "grid.block_size", "model plain has no drafter") in problems_of(
        text.replace("model: m", "model: plain"), lacking
    )


# Good files


def test_no_speculation_and_no_window_in_every_spelling() -> None:
    sweep = good("none-spellings")
    assert [(one.cell.hash, one.label) for one in sweep.cells] == [
        ("a5c5212de9b5", "baseline"),
        ("d768f4e18f66", "b8 t4 none"),
    ]
    assert sweep.folded == 18


def test_numbers_are_what_they_look_like() -> None:
    sweep = good("numbers")
    [one] = sweep.cells
    assert one.cell == Cell(
        model="kimi-k2.6",
        engine="sglang-ddtree",
        speculation=Speculation(block_size=8, budget=1000, topk=1000, window=2048),
        args={
            "mem-fraction-static": 0.85,
            "max-prefill-tokens": 10_000,
            "chunked-prefill-size": 1000,
            "page-size": 10,
            "dist-timeout": 16,
            "dist-init-addr": "22:22",
            "tool-call-parser": "1_000",
            "kv-cache-dtype": "off",
            "trust-remote-code": False,  # kept, unlike disable-radix-cache: the profile would add it
            "enable-metrics": True,
        },
        env={"A": "010", "B": "1e3", "C": "off", "D": "1_000", "E": "", "F": "0.50"},
    )
    assert one.cell.hash == "108cd3ab10bf"
    assert sweep.hosts == ("b300",)
    assert sweep.parallel == {"b300": (Parallelism(tp=4),)}
    assert sweep.measure.points == (Point(1, 60, 16),)
    assert sweep.measure.repeats == Repeats(1, 2, 0.025)


def test_cells_then_the_grid_with_axes_that_go_together() -> None:
    sweep = good("grid-zip-exclude")
    assert [(one.cell.hash, one.label) for one in sweep.cells] == [
        ("a5c5212de9b5", "baseline"),
        ("7378969a9923", "b8 t4 w2048"),
        ("5bce182ca551", "b4 t4 w2048"),
        ("06e76b942292", "b8 t6 none"),
    ]
    assert sweep.folded == 2


def test_arguments_and_variables_are_axes_and_the_baseline_has_no_speculative_one() -> None:
    sweep = good("arguments-and-variables")
    assert [(one.cell.hash, one.label) for one in sweep.cells] == [
        ("9ab2e6d01678", "baseline"),
        ("1804e4341257", "bs8 none mem-fraction-static=0.8 NCCL_DEBUG=INFO"),
        ("4614001a7f2f", "bs8 none NCCL_P2P_DISABLE=0"),
        ("ee1d244ccbef", "bs8 none NCCL_P2P_DISABLE=1"),
        ("a0253522fe7b", "bs8 none mem-fraction-static=0.9 NCCL_P2P_DISABLE=0"),
        ("ba0c577c91b8", "bs8 none mem-fraction-static=0.9 NCCL_P2P_DISABLE=1"),
    ]
    assert sweep.cells[0].cell.args == {"mem-fraction-static": 0.85}
    assert sweep.cells[0].cell.is_baseline
    assert sweep.cells[1].cell.args == {"mem-fraction-static": 0.8, "speculative-attention-mode": "decode"}


def test_hosts_parallelism_points_and_coding() -> None:
    sweep = good("where-and-how")
    assert sweep.hypothesis == "42"
    assert sweep.hosts == ("b300", "rtx6000")
    assert sweep.parallel == {
        "b300": (Parallelism(pp=8),),
        "rtx6000": (Parallelism(tp=8, ep=4), Parallelism(tp=8, ep=8), Parallelism(tp=2, pp=4)),
    }
    assert sweep.measure.points == (
        Point(1, 60, 256),
        Point(1, 4096, 256),
        Point(32, 60, 256),
        Point(32, 4096, 256),
        Point(32, 60, 512),
    )
    assert sweep.measure.repeats == Repeats(2, 2, 0.03)
    assert sweep.measure.coding == Coding("core5", (32, 1))
    assert sweep.file_name == "where-and-how.yaml"
    assert sweep.file_text == (GOOD / "where-and-how.yaml").read_text()


def test_the_shipped_sweep_of_the_trained_block_size() -> None:
    sweep = read_sweep(ROOT / "sweeps/ddtree-block8.yaml", REAL)
    assert [(one.cell.hash, one.label) for one in sweep.cells] == [
        ("22c8dda3495d", "baseline"),
        ("44611958b8ef", "b8 t4 w2048"),
        ("fb24adda7d8e", "b8 t4 none"),
        ("10bf8f8da7e8", "b4 t4 w2048"),
        ("0788802d886c", "b12 t6 w2048"),
        ("ca908509774b", "b16 t4 w2048"),
    ]
    assert not any(one.out_of_distribution for one in sweep.cells)
    assert sweep.parallel == {"rtx6000": (Parallelism(tp=8, ep=8),), "b300": (Parallelism(tp=8),)}
    assert [point.label for point in sweep.measure.points] == ["C=1 60", "C=1 1k", "C=1 4k", "C=32 60", "C=32 4k"]
    assert sweep.measure.coding == Coding("core5", (1, 32))
    assert not sweep.simulated


def test_the_shipped_sweep_of_an_untrained_block_size() -> None:
    sweep = read_sweep(ROOT / "sweeps/ddtree-block16.yaml", REAL)
    assert [(one.cell.hash, one.label, one.out_of_distribution) for one in sweep.cells] == [
        ("22c8dda3495d", "baseline", False),
        ("4d8f8b14fa8c", "bs16 b16 t4 w2048", True),
        ("6d4adfafe009", "bs16 b32 t4 w2048", True),
    ]
    assert sweep.out_of_distribution is OutOfDistribution.ALLOW
    assert sweep.hypothesis is not None
    assert "positions 8-15 are untrained" in sweep.hypothesis


def test_the_demo_sweeps_are_simulated_counterparts_of_the_shipped_ones() -> None:
    for name, counterpart in (("demo", "ddtree-block8"), ("demo-block16", "ddtree-block16")):
        demo = sweep_from_text(example(f"{name}.yaml"), f"{name}.yaml", SIMULATED)
        shipped = read_sweep(ROOT / f"sweeps/{counterpart}.yaml", REAL)
        assert demo.name == name
        assert demo.simulated
        assert demo.hosts == ("sim-rtx6000", "sim-b300")
        assert labels(demo) == labels(shipped)
        assert [one.cell.speculation for one in demo.cells] == [one.cell.speculation for one in shipped.cells]
        assert [(p.concurrency, p.context) for p in demo.measure.points] == [
            (p.concurrency, p.context) for p in shipped.measure.points
        ]
        assert {(p.concurrency, p.output) for p in demo.measure.points} == {(1, 32), (32, 16)}
        assert demo.measure.repeats == Repeats(3, 3)


def test_true_is_not_one_among_argument_values() -> None:
    sweep = sweep_from_text(CELLS + "grid: {args.x: [true, 1, 1.0, '1']}\n", "t.yaml", REAL)
    assert [one.cell.args["x"] for one in sweep.cells] == [True, 1, "1"]
    assert sweep.folded == 1


def test_an_argument_left_out_is_the_same_cell_as_one_never_given() -> None:
    sweep = sweep_from_text(CELLS + "cells: [{args.x: null}, {args.x: false}, {speculation: none}]\n", "t.yaml", REAL)
    assert [one.cell.args for one in sweep.cells] == [{}]
    assert sweep.folded == 2


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + (CELLS + "baseline: true\n").replace("\n", "\r\n").encode())
    assert labels(read_sweep(path, REAL)) == ["baseline"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[
            (text, text)
            for text in ("off", "no", "yes", "on", "22:22", "1_000", "None", "nan", "1,32", "0b1", "2024-01-01")
        ],
        *[(text, None) for text in ("", "~", "null", "Null", "NULL")],
        *[(text, 10) for text in ("10", "010", "+10", "0o12", "0xa")],
        *[(text, 1000.0) for text in ("1e3", "1.0e3", "1E+3", "1000.")],
        *[(text, True) for text in ("true", "True", "TRUE")],
        (".5", 0.5),
        ("-.inf", float("-inf")),
    ],
)
def test_plain_scalars_follow_the_core_schema(text: str, value: object) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


def test_folded_text_reads_as_one_line() -> None:
    """The round-trip scanner of ruamel would leave its own mark, a bell character, at each fold."""
    sweep = sweep_from_text(example("demo-block16.yaml"), "demo-block16.yaml", SIMULATED)
    assert sweep.hypothesis is not None
    assert sweep.hypothesis.isprintable()
    assert "whatever the budget" in sweep.hypothesis


def test_prompts_of_the_persons_own() -> None:
    text = example("demo.yaml").replace("measure:\n", "measure:\n  prompts: /data/prompts.txt\n")
    sweep = sweep_from_text(text, "t.yaml", SIMULATED)
    assert sweep.measure.prompts == "/data/prompts.txt"
    assert Measure.from_json(sweep.measure.to_json()) == sweep.measure
    assert sweep_from_text(example("demo.yaml"), "t.yaml", SIMULATED).measure.prompts is None
