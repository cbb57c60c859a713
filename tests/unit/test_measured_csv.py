"""Tables that people typed: what they say, and where they are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddqueue.domain.configuration import Parallelism, Speculation
from ddqueue.domain.hand_measured import HandMeasured, cell_named
from ddqueue.domain.inventory import Drafter, EngineProfile, Model
from ddqueue.domain.sweep import Point
from ddqueue.errors import FileError, UsageError
from ddqueue.files.measured_csv import Defaults, read_measured
from ddqueue.services.importing import as_sweep

MODEL = Model("kimi", {"*": "/m"}, Drafter({"*": "/d"}, block_size=8))
ENGINE = EngineProfile("sglang-ddtree", {"*": ("python",)})
BY_HAND = Path(__file__).parents[1] / "data" / "imports" / "block8-by-hand.csv"


def parallelism_of(host: str, label: str) -> Parallelism:
    if host not in ("rtx6000", "b300"):
        raise UsageError(f"no host {host!r}")
    return Parallelism.parse(label, 8)


def read(
    path: Path, host: str | None = "rtx6000", parallel: str | None = "EP8", output: int | None = 256
) -> HandMeasured:
    return read_measured(
        path,
        Defaults(lambda label: cell_named(label, MODEL, ENGINE), parallelism_of, lambda _c, _t: output, host, parallel),
    )


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "hand.csv"
    path.write_text(text)
    return path


def test_five_rows_as_they_were_typed_into_a_chat() -> None:
    measured = read(BY_HAND)
    assert [point.label for point in measured.points] == ["C=1 60", "C=1 1k", "C=1 4k", "C=32 60", "C=32 4k"]
    assert measured.points[-1] == Point(32, 4096, 256)
    first, second, third, fourth, _ = measured.rows
    assert first.cell.cell.speculation == Speculation(8, 8, 4, 2048)
    assert second.cell.label == "b8 t4 none"
    assert second.cell.cell.speculation == Speculation(8, 8, 4, None)
    assert first.throughputs_tok_s[Point(1, 60, 256)] == (145.0, 170.0)
    assert second.throughputs_tok_s[Point(32, 60, 256)] == (842.6,)
    assert [row.acceptance_length for row in measured.rows] == [4.5, 4.51, 3.65, 4.81, 4.91]
    assert (first.written["accept"], first.written["coding"], third.written["coding"]) == ("~4.5", "ok", "4/5")
    assert (fourth.line, fourth.host, fourth.parallelism) == (5, "rtx6000", Parallelism(8, 8))
    assert len(measured.sha256) == 64


def test_a_row_may_say_its_host_and_a_head_its_output(tmp_path: Path) -> None:
    heads = "\ufeffConfiguration , host,parallelism,c = 4 2k tokens out 512,Acceptance length"
    text = f"{heads}\nbs16 b32 t4 w2048,b300,TP8,900,\n\n"
    measured = read(written(tmp_path, text), None, None, None)
    (row,) = measured.rows
    assert row.throughputs_tok_s == {Point(4, 2048, 512): (900.0,)}
    assert (row.host, row.parallelism, row.acceptance_length) == ("b300", Parallelism(8), None)
    assert (row.cell.label, row.cell.out_of_distribution) == ("bs16 b32 t4 w2048", True)


def test_a_configuration_in_two_rows_was_measured_in_two_visits(tmp_path: Path) -> None:
    rows = ["b8 t4 w2048,145", "baseline,44", "w2048 t4 b8,146"]
    sweep, jobs = as_sweep(
        read(written(tmp_path, "config,C=1 60\n" + "\n".join(rows))), "hand", "kimi", "sglang-ddtree"
    )
    assert [(job.cell.label, job.visit) for job in jobs] == [("b8 t4 w2048", 1), ("baseline", 1), ("b8 t4 w2048", 2)]
    assert (len(sweep.cells), sweep.measure.visits, sweep.simulated) == (2, 2, False)


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("", 1, "", "nothing in it"),
        ("\n\n", 1, "", "nothing in it"),
        ("config,C=1 60\n", 1, "", "no row below the heads"),
        ("C=1 60\n145\n", 1, "config", "no such column"),
        ("config;C=1 60\nb8;145\n", 1, "config;C=1 60", "unknown column"),
        ("config,accept\nb8,4.5\n", 1, "", "no column of throughputs"),
        ("config,C=1 60,acept\nb8,145,4\n", 1, "acept", "Did you mean accept?"),
        ("config,C=0 60\nb8,145\n", 1, "C=0 60", "unknown column"),
        ("config,C=1 60,C=1 60tok\nb8,145,146\n", 1, "C=1 60tok", "a second column for the same thing"),
        ("config,C=1 60\nb8,145,7\n", 2, "", "3 fields, but 2 heads"),
        ("config,C=1 60\nb8 t4 x9,145\n", 2, "config", "'x9' says nothing known"),
        ("config,C=1 60\nb8 b4,145\n", 2, "config", "'b4' says nothing known, or a second time"),
        ("config,C=1 60\n,145\n", 2, "config", "no block size is said"),
        ("config,C=1 60\nb8,fast\n", 2, "C=1 60", "'fast' is no throughput"),
        ("config,C=1 60\nb8,0\n", 2, "C=1 60", "'0' is no throughput"),
        ("config,C=1 60\nb8,nan\n", 2, "C=1 60", "'nan' is no throughput"),
        ('config,C=1 60\nb8,"1,450"\n', 2, "C=1 60", "'1,450' is no throughput"),
        ("config,C=1 60\nb8,-\n", 2, "", "no throughput in the whole row"),
        ("config,C=1 60,accept\nb8,145,0.5\n", 2, "accept", "'0.5' is no acceptance length"),
        ("config,host,C=1 60\nb8,mars,145\n", 2, "host", "no host 'mars'"),
        ("config,parallel,C=1 60\nb8,XP8,145\n", 2, "host", "'XP8' is not a parallelism"),
        ('config,C=1 60\n"b8,145\n', 2, "", "not CSV"),
        (f"config,C=1 60,coding\nb8,145,{'x' * 201}\n", 2, "coding", "too long"),
    ],
)
def test_a_mistake_names_its_line_and_column(tmp_path: Path, text: str, line: int, column: str, said: str) -> None:
    with pytest.raises(FileError) as refused:
        read(written(tmp_path, text))
    problem = refused.value.problems[0]
    assert (problem.line, problem.key) == (line, column)
    assert said in f"{problem.problem} {problem.remedy}"


def test_every_mistake_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileError) as refused:
        read(written(tmp_path, "config,C=1 60,accept\nb8,fast,0\n\nq8,145,4\n"))
    assert [(one.line, one.key) for one in refused.value.problems] == [(2, "C=1 60"), (2, "accept"), (4, "config")]


def test_what_nobody_says_is_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, "config,C=1 60\nb8,145\n")
    with pytest.raises(FileError, match="how many output tokens"):
        read(path, output=None)
    with pytest.raises(FileError, match="give --host"):
        read(path, host=None)
    path.write_bytes(b"config,C=1 60\nb8,145\nb4,\xff\n")
    with pytest.raises(FileError, match=r"hand.csv:3: not UTF-8"):
        read(path)
    with pytest.raises(UsageError, match="No such file"):
        read(tmp_path / "missing.csv")
