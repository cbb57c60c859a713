"""A sweep with coding checks, from its file to its table, on a simulated box; and scored again without it."""

from __future__ import annotations

import csv
import io
import re

from installation import Installation, sweep_text

HOST = "sim-rtx6000"
CODING = "  coding: {suite: core5, concurrency: [1, 8]}\n"


def test_every_answer_is_asked_kept_graded_and_shown(installation: Installation) -> None:
    sweep = installation.submit(sweep_text("coding", more={"baseline": "true"}) + CODING)
    installation.start_all(HOST)
    jobs = installation.wait_final(sweep)
    assert [(job["label"], job["state"]) for job in jobs] == [("baseline", "succeeded"), ("b8 t4 w2048", "succeeded")]

    (attempt,) = installation.show(jobs[1]["job_id"])["attempts"]
    steps = [f"{phase['name']} {phase['detail']}" for phase in attempt["phases"]]
    assert steps[steps.index("coding C=1") :][:3] == ["coding C=1", "coding C=8", "grade 15 answers"]

    rows = csv.DictReader(io.StringIO(installation.run("results", sweep, "--format", "csv").stdout))
    assert {row["label"]: row["coding"] for row in rows} == {
        "baseline": "5/5 · 10/10 at C=8",
        "b8 t4 w2048": "5/5 · 10/10 at C=8",
    }
    table = installation.run("results", sweep).stdout
    assert table.count("5/5 · 10/10 at C=8") == 2
    assert "CORRECTNESS_DROP" not in table

    query = "SELECT count(*) AS n, count(content) AS contents, bool_and(simulated) AS simulated FROM answers"
    assert installation.run("sql", query).stdout.splitlines()[2].split() == ["30", "30", "True"]

    cells = installation.json("rescore", sweep)["cells"]
    assert [(cell["label"], cell["concurrency"], cell["new"]["passed"], cell["changed"]) for cell in cells] == [
        ("baseline", 1, 5, 0),
        ("baseline", 8, 10, 0),
        ("b8 t4 w2048", 1, 5, 0),
        ("b8 t4 w2048", 8, 10, 0),
    ]
    assert installation.run("results", sweep).stdout == table


def test_a_sweep_that_asks_for_no_coding_says_so(installation: Installation) -> None:
    sweep = installation.submit(sweep_text("no-coding"))
    rows = csv.DictReader(io.StringIO(installation.run("results", sweep, "--format", "csv").stdout))
    assert [row["coding"] for row in rows] == [""]
    assert "not measured" not in installation.run("results", sweep).stdout


def test_a_cell_that_answers_worse_under_load_keeps_its_numbers_and_is_marked(installation: Installation) -> None:
    cells = ["{block_size: 8, budget: 8}", "{block_size: 8, budget: 8, args.sim-fault: corrupt-under-load}"]
    sweep = installation.submit(sweep_text("worse", cells=cells, more={"baseline": "true"}) + CODING)
    installation.start_all(HOST)
    assert {job["state"] for job in installation.wait_final(sweep)} == {"succeeded"}
    jobs = installation.json("results", sweep)["jobs"]
    assert [len(job["correctness_drops"]) for job in jobs] == [0, 0, 1]
    (drop,) = jobs[2]["correctness_drops"]
    assert (drop["concurrency"], drop["baseline_passed"], drop["judged"]) == (8, 10, 10)
    assert drop["passed"] <= 5
    assert [point["n"] for point in jobs[2]["points"]] == [3], "its throughput is kept"
    table = installation.run("results", sweep, "--format", "markdown").stdout
    assert re.search(rf"not ranked \(.*CORRECTNESS_DROP\): .*{re.escape(drop['words'])}", table)
