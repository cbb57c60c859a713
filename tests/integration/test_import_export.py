"""Results measured by hand come in, marked, and are held against measured ones; every measurement goes out and back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError
from storage_world import POINTS, World, a_measurement

from ddqueue.domain.configuration import Cell, Parallelism, Speculation
from ddqueue.domain.exporting import ColumnKind
from ddqueue.domain.failures import Failure
from ddqueue.domain.inventory import Host
from ddqueue.domain.measurement import Invalid
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.domain.sweep import Measure, Point, Sweep, SweepCell, jobs_of
from ddqueue.files.examples import example
from ddqueue.storage.exporting import export_columns, export_rows

BY_HAND = Path(__file__).parents[1] / "data" / "imports" / "block8-by-hand.csv"
RTX = Host("rtx6000", 8, "RTX PRO 6000 Blackwell", "pcie")
SAID = [
    "--host",
    "rtx6000",
    "--parallel",
    "EP8",
    "--model",
    "kimi-k2.6",
    "--engine",
    "sglang-ddtree",
    "--output",
    "256",
]


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    world = World(database_url)
    yield world
    world.sql_engine.dispose()


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """A real host and a simulated one, a real engine and a simulated one."""
    text = example("inventory.yaml")
    text = text.replace("hosts:\n", "hosts:\n  sim-rtx6000: {gpus: 8, gpu: none, simulated: pcie}\n", 1)
    text += "\n  sim: {command: [python], simulated: true}\n"
    path = tmp_path / "inventory.yaml"
    path.write_text(text)
    return path


def ddqueue(world: World, inventory: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "ddqueue", *arguments],
        env={**os.environ, "DDQUEUE_DATABASE_URL": world.database_url, "DDQUEUE_INVENTORY": str(inventory)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return done


def rows_of(world: World, table: str, order: str = "id") -> list[dict[str, Any]]:
    return [dict(row) for row in world.column(f"SELECT to_jsonb(t) FROM {table} AS t ORDER BY {order}")]


def test_what_the_file_says_is_stored_and_nothing_else(world: World, inventory: Path) -> None:
    told = ["--measured-on", "one night in May", "--note", "warm caches"]
    done = ddqueue(world, inventory, "import", str(BY_HAND), *SAID, *told)
    assert done.stdout.startswith("imported block8-by-hand@1: 5 rows on rtx6000, marked as measured by hand\n")

    (sweep,) = rows_of(world, "sweeps")
    assert (sweep["file_text"], sweep["simulated"]) == (BY_HAND.read_text(), False)
    source = sweep["imported"]
    assert source["by"].count("@") == 1
    assert (source["file"], source["measured_on"], source["note"]) == (
        *("block8-by-hand.csv", "one night in May", "warm caches"),
    )
    assert len(source["sha256"]) == 64
    assert world.events("imported")[0]["sha256"] == source["sha256"]

    assert {(job["state"], job["started_at"], job["fence"]) for job in rows_of(world, "jobs")} == {
        ("succeeded", None, None)
    }
    attempts = rows_of(world, "attempts")
    nothing = {one[name] for one in attempts for name in ("fence", "runner_pid", "worker", "provenance", "effective")}
    assert nothing == {None}
    assert attempts[0]["imported"] == {
        "line": 2,
        "acceptance_length": 4.5,
        "coding": "ok",
        "written": {
            "config": "b8 t4 w2048",
            "C=1 60tok": "145-170",
            "C=1 1k": "109.8",
            "C=1 4k": "44.2",
            "C=32 60tok": "791",
            "C=32 4k": "460",
            "accept": "~4.5",
            "coding": "ok",
        },
    }
    assert rows_of(world, "phases", "seq") == []
    measured = rows_of(world, "measurements")
    assert len(measured) == 26, "five rows of five points, one of them a range"
    assert [(row["repeat"], row["output_throughput_tok_s"]) for row in measured[:3]] == [(1, 145), (2, 170), (1, 109.8)]
    unknown = ("started_at", "wall_s", "requests_completed", "output_tokens", "ttft_mean_ms", "acceptance_length")
    assert {row[name] for row in measured for name in unknown} == {None}
    assert {(row["valid"], *row["marks"]) for row in measured} == {(True, "IMPORTED")}


def test_only_what_is_imported_may_lack_its_window(world: World) -> None:
    world.submit()
    claim = world.claim(world.jobs()[0])
    world.attempts.record_measurement(claim, a_measurement())
    with pytest.raises(DBAPIError, match="only_imported_lacks_its_window"):
        world.do("UPDATE measurements SET wall_s = NULL")
    with pytest.raises(DBAPIError, match="attempts_imported_ran_nowhere"):
        world.do("UPDATE attempts SET fence = NULL")


def test_the_table_and_the_host_take_it_for_what_it_is(world: World, inventory: Path) -> None:
    ddqueue(world, inventory, "import", str(BY_HAND), *SAID)
    jobs = json.loads(ddqueue(world, inventory, "results", "block8-by-hand", "--json").stdout)["jobs"]
    assert [job["label"] for job in jobs][:2] == ["b8 t4 w2048", "b8 t4 none"]
    assert [job["points"][3]["mean_tok_s"] for job in jobs] == [791, 842.6, 897.1, 696.8, 611]
    assert [job["acceptance_length"] for job in jobs] == [4.5, 4.51, 3.65, 4.81, 4.91]
    table = ddqueue(world, inventory, "results", "block8-by-hand").stdout
    assert "145.3 (n=1)" in table
    assert "4/5 (by hand)" in table
    assert "IMPORTED: measured by hand and brought in from a file" in table
    assert world.one("SELECT bool_and(imported) FROM results")
    for command in (["status", "block8-by-hand"], ["show", "1"], ["hosts"]):
        ddqueue(world, inventory, *command)


def test_a_success_by_hand_ends_no_row_of_failures(world: World, inventory: Path) -> None:
    """It says nothing of the box today: the third failure in a row quarantines it all the same."""
    sweep = a_measured_sweep()
    world.sweeps.add(sweep, jobs_of(sweep), [RTX])
    for number, job_id in enumerate(world.jobs()[:3]):
        if number == 2:
            ddqueue(world, inventory, "import", str(BY_HAND), *SAID)
        claim = world.claim(job_id)
        world.attempts.finish(claim, AttemptOutcome.FAILED, Decision(JobState.FAILED), Failure.SERVER_CRASHED, "?")
    assert world.one("SELECT quarantined_at IS NOT NULL FROM hosts WHERE name = 'rtx6000'")


def a_measured_sweep(args: dict[str, Any] | None = None) -> Sweep:
    """The same five configurations as by hand."""
    trees = [(8, 4, 2048), (8, 4, None), (4, 4, 2048), (12, 6, 2048), (16, 4, 2048)]
    cells = [Cell("kimi-k2.6", "sglang-ddtree", Speculation(8, *tree), args or {}) for tree in trees]
    return Sweep(
        name="measured",
        model="kimi-k2.6",
        engine="sglang-ddtree",
        hosts=("rtx6000",),
        parallel={"rtx6000": (Parallelism(8, 8),)},
        cells=tuple(
            SweepCell(cell, cell.label(8, Cell("kimi-k2.6", "sglang-ddtree", None, args or {}))) for cell in cells
        ),
        measure=Measure((Point(1, 60, 256), Point(32, 4096, 256))),
    )


def measure_all(world: World, sweep: Sweep) -> None:
    """Each configuration 10% faster than by hand at C=32."""
    stored = world.sweeps.add(sweep, jobs_of(sweep), [RTX])
    by_hand = [460, 456.8, 440, 421, 397]
    job_ids = world.column("SELECT id FROM jobs WHERE sweep_id = :id ORDER BY position", id=stored.sweep_id)
    for job_id, tok_s in zip(job_ids, by_hand, strict=True):
        claim = world.claim(job_id)
        for repeat in (1, 2, 3):
            world.attempts.record_measurement(claim, a_measurement(sweep.measure.points[1], repeat, tok_s * 1.1))
            world.attempts.record_measurement(claim, a_measurement(sweep.measure.points[0], repeat, 145.0))
        world.succeed(claim)


def test_it_compares_with_a_measured_run(world: World, inventory: Path) -> None:
    measure_all(world, a_measured_sweep())
    ddqueue(world, inventory, "import", str(BY_HAND), *SAID)
    compared = json.loads(ddqueue(world, inventory, "compare", "block8-by-hand", "measured", "--json").stdout)
    labels = ["b8 t4 w2048", "b8 t4 none", "b4 t4 w2048", "b12 t6 w2048", "b16 t4 w2048"]
    assert [(pair["a"]["label"], pair["b"]["label"]) for pair in compared["pairs"]] == [(one, one) for one in labels]
    assert {(*pair["a"]["marks"], *pair["b"]["marks"]) for pair in compared["pairs"]} == {("IMPORTED",)}
    at_32 = [pair["points"][1] for pair in compared["pairs"]]
    by_hand = [point["a"]["throughput_tok_s"] for point in at_32]
    assert by_hand == pytest.approx([460, 456.8, 440, 421, 397])
    assert [point["b"]["throughput_tok_s"] for point in at_32] == pytest.approx([value * 1.1 for value in by_hand])
    # One number by hand is too few to say that a difference is more than noise, and nothing is said.
    assert {point["throughput"]["verdict"] for point in at_32} == {"too_few"}


def test_like_takes_every_argument_of_a_measured_sweep(world: World, inventory: Path) -> None:
    measure_all(world, a_measured_sweep({"mem-fraction-static": 0.85}))
    like = ["--like", "measured", "--host", "rtx6000", "--parallel", "EP8", "--name", "hand"]
    refused = ddqueue(world, inventory, "import", str(BY_HAND), *like, code=2)
    # Only two of the five points were measured, so that only their output lengths are known.
    assert "C=1 1k: nobody says how many output tokens a request had" in refused.stderr
    ddqueue(world, inventory, "import", str(BY_HAND), *like, "--output", "256")
    hashes = "SELECT array_agg(hash ORDER BY position) FROM cells GROUP BY sweep_id"
    measured, by_hand = world.column(hashes)
    assert by_hand == measured


def test_refusals_store_nothing(world: World, inventory: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("config,C=1 60tok\nb8 t4,fast\n")
    for arguments, said in (
        ([str(wrong), *SAID], f"{wrong}:2: C=1 60tok: 'fast' is no throughput"),
        (
            [str(BY_HAND), *SAID, "--host", "sim-rtx6000"],
            "sim-rtx6000 is simulated: nothing was measured on it by hand",
        ),
        ([str(BY_HAND), *SAID, "--engine", "sim"], "engine sim is simulated"),
        ([str(BY_HAND), *SAID, "--name", "By Hand"], "'By Hand' is no name for a sweep"),
        ([str(BY_HAND), *SAID[:4]], "--model and --engine, or --like SWEEP"),
        ([str(BY_HAND), *SAID, "--like", "x"], "--model and --engine, or --like SWEEP"),
    ):
        refused = ddqueue(world, inventory, "import", *arguments, code=2)
        assert said in refused.stderr
        assert "Traceback" not in refused.stderr
    assert world.one("SELECT count(*) FROM sweeps") == 0


def measured_world(world: World) -> list[dict[str, Any]]:
    """A sweep with a valid row, one that is not, and one of a failed attempt; as the database has them."""
    world.submit()
    first, second, _ = world.jobs()
    claim = world.claim(first)
    world.attempts.record_measurement(claim, a_measurement(POINTS[0], 1, 144.5))
    world.attempts.record_measurement(claim, a_measurement(POINTS[0], 2, None, reasons=(Invalid.NO_TOKENS,)))
    world.succeed(claim)
    failed = world.claim(second)
    world.attempts.record_measurement(
        failed, replace(a_measurement(POINTS[1], 1, 790.0), client={"lag": 0.5, "é": "ü"})
    )
    world.attempts.finish(failed, AttemptOutcome.FAILED, Decision(JobState.FAILED), Failure.OOM_RUN, "why")
    return list(export_rows(world.sql_engine, 1))


def test_json_lines_hold_every_measurement_with_its_place(world: World, inventory: Path, tmp_path: Path) -> None:
    expected = measured_world(world)
    path = tmp_path / "out.jsonl"
    said = ddqueue(world, inventory, "export", "kimi-ddtree", "-o", str(path)).stdout
    assert said == f"kimi-ddtree@1: 3 measurements in {path}\n"
    back = [json.loads(line) for line in path.read_text().splitlines()]
    moments = [column.name for column in export_columns() if column.kind is ColumnKind.MOMENT]
    for row in back:
        for name in moments:
            row[name] = row[name] and datetime.fromisoformat(row[name])
    assert back == expected
    assert [(row["label"], row["repeat"], row["accepted"], row["reasons"]) for row in back] == [
        ("baseline", 1, True, []),
        ("baseline", 2, True, ["NO_TOKENS"]),
        ("b8 t4 w2048", 1, False, []),
    ]
    first = back[0]
    assert (first["sweep"], first["sweep_revision"], first["host"], first["gpu_kind"], first["tp"], first["ep"]) == (
        *("kimi-ddtree", 1, "rtx6000", "RTX PRO 6000", 8, 8),
    )
    assert (first["output_throughput_tok_s"], first["ttft_p50_ms"], first["wall_s"]) == (144.5, 190.0, 1.8)
    assert (first["draft_histogram"], first["started_at"]) == ([10, 20, 110], datetime(2025, 1, 2, tzinfo=UTC))
    assert (back[2]["client"], back[2]["attempt_failure"]) == ({"lag": 0.5, "é": "ü"}, "OOM_RUN")
    streamed = ddqueue(world, inventory, "export", "kimi-ddtree@1", "--format", "jsonl", "-o", "-").stdout
    assert streamed == path.read_text()


def test_an_imported_sweep_is_exported_as_such(world: World, inventory: Path) -> None:
    ddqueue(world, inventory, "import", str(BY_HAND), *SAID)
    lines = ddqueue(world, inventory, "export", "block8-by-hand", "--format", "jsonl", "-o", "-").stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 26
    assert {(row["imported"], row["wall_s"], *row["marks"]) for row in rows} == {(True, None, "IMPORTED")}


def test_parquet_round_trip(world: World, inventory: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra `parquet` is not installed")
    expected = measured_world(world)
    path = tmp_path / "out.parquet"
    ddqueue(world, inventory, "export", "kimi-ddtree", "-o", str(path))
    back = parquet.read_table(path).to_pylist()
    as_text = [column.name for column in export_columns() if column.kind is ColumnKind.JSON]
    assert set(as_text) == {"configuration", "client"}
    for row in back:
        for name in as_text:
            row[name] = json.loads(row[name])
    assert back == expected


def test_what_cannot_be_written_is_said_and_leaves_nothing(world: World, inventory: Path, tmp_path: Path) -> None:
    measured_world(world)
    without = ddqueue(world, inventory, "export", "kimi-ddtree", "-o", str(tmp_path / "out.data"), code=2)
    assert "add --format jsonl or --format parquet" in without.stderr
    nowhere = ddqueue(world, inventory, "export", "kimi-ddtree", "-o", str(tmp_path / "no" / "out.jsonl"), code=2)
    assert "No such file or directory" in nowhere.stderr
    assert (
        "Parquet is no text"
        in ddqueue(world, inventory, "export", "kimi-ddtree", "--format", "parquet", "-o", "-", code=2).stderr
    )
    (tmp_path / "pyarrow.py").write_text("raise ImportError\n")
    command = "import sys; sys.path.insert(0, sys.argv.pop(1)); from ddqueue.cli.main import main; main()"
    missing = subprocess.run(
        [*(sys.executable, "-c", command, str(tmp_path)), "export", "kimi-ddtree", "-o", str(tmp_path / "out.parquet")],
        env={**os.environ, "DDQUEUE_DATABASE_URL": world.database_url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert missing.returncode == 2
    assert missing.stderr == (
        "ddqueue: Parquet needs pyarrow: pip install 'ddqueue[parquet]', or take --format jsonl, which needs nothing\n"
    )
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"inventory.yaml", "pyarrow.py"}
