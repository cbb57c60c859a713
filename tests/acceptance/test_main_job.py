"""From a sweep file to a table, on two simulated boxes; and a second sweep behind the first."""

from __future__ import annotations

import csv
import io

import pytest
from installation import Installation, sweep_text

HOSTS = ("sim-rtx6000", "sim-b300")
PIPELINE = ["provenance", "launch", "ready", "confirm", "warm up", "measure", "stop", "release"]


@pytest.fixture
def measured(installation: Installation) -> tuple[Installation, str]:
    """A finished sweep: a baseline and a tree on two hosts, two points."""
    sweep = installation.submit(
        sweep_text(
            "main-job",
            HOSTS,
            points=["{concurrency: 1, context: 60, output: 32}", "{concurrency: 8, context: 1024, output: 16}"],
            more={"baseline": "true", "hypothesis": "the tree pays on both boxes"},
        )
    )
    installation.start_all(*HOSTS)
    installation.wait_final(sweep)
    return installation, sweep


def test_from_a_file_to_a_table(measured: tuple[Installation, str]) -> None:
    installation, sweep = measured
    jobs = installation.jobs(sweep)
    assert [(job["host"], job["label"], job["state"]) for job in jobs] == [
        (host, label, "succeeded") for host in HOSTS for label in ("baseline", "b8 t4 w2048")
    ]
    for job in jobs:
        _check_attempt(installation.show(job["job_id"]), baseline=job["label"] == "baseline")
    for host in HOSTS:
        assert installation.servers(host) == []
        assert all(gpu.memory_used_mib == 0 and not gpu.pids for gpu in installation.gpus(host))

    table = installation.run("results", sweep).stdout
    assert table.count("(simulated)") == 2
    assert table.count("hypothesis: the tree pays on both boxes") == 2
    assert [line.split()[0] for line in table.splitlines() if "[simulated] " in line and "±" in line] == [
        "baseline",
        "b8",
        "baseline",
        "b8",
    ]
    rows = list(csv.DictReader(io.StringIO(installation.run("results", sweep, "--format", "csv").stdout)))
    assert {row["host"] for row in rows} == set(HOSTS)
    assert {row["simulated"].lower() for row in rows} == {"true"}
    assert installation.run("results", sweep, "--format", "markdown").stdout.count("| --- |") >= 2


def _check_attempt(job: dict[str, object], baseline: bool) -> None:
    (attempt,) = job["attempts"]  # type: ignore[misc]
    assert attempt["outcome"] == "succeeded"
    assert attempt["simulated"] is True
    assert attempt["difference"] == {}
    assert len(attempt["provenance"]["gpus"]) == 8
    assert attempt["provenance"]["argv"][1:3] == ["-m", "ddqueue.sim.server"]
    names = list(dict.fromkeys(phase["name"] for phase in attempt["phases"] if phase["name"] in PIPELINE))
    # `warm up` is also a phase of the server's own start.
    assert sorted(names, key=PIPELINE.index) == PIPELINE
    assert (names[0], names[-2:]) == ("provenance", ["stop", "release"])
    measurements = attempt["measurements"]
    assert len(measurements) == 6
    for row in measurements:
        assert row["valid"], row["reasons"]
        assert row["simulated"]
        assert row["requests_completed"] == row["concurrency"]
        assert row["output_tokens"] == row["concurrency"] * row["output_tokens_asked"]
        assert row["prompt_tokens"] == row["concurrency"] * row["context_tokens"]
        assert row["cached_share"] == 0
        assert row["output_throughput_tok_s"] == pytest.approx(row["output_tokens"] / row["wall_s"])
        if baseline:
            assert row["acceptance_length"] is None
        else:
            assert row["acceptance_length"] == pytest.approx(1 + row["correct_drafts"] / row["verifies"])
            assert sum(row["draft_histogram"]) == row["verifies"]
            assert len(row["draft_histogram"]) <= 8


def test_a_second_sweep_runs_next_and_says_what_it_is(installation: Installation) -> None:
    first = installation.submit(sweep_text("first", cells=["{block_size: 8, budget: 4}", "{block_size: 8, budget: 8}"]))
    installation.start_all("sim-rtx6000")
    installation.wait(first, lambda jobs: any(job["state"] == "running" for job in jobs))
    hypothesis = "acceptance collapses beyond depth 7"
    second = installation.submit(
        sweep_text(
            "after-this",
            cells=[
                "{block_size: 16, budget: 16, topk: 4, window: 2048}",
                "{block_size: 16, budget: 32, topk: 4, window: 2048}",
            ],
            more={"out_of_distribution": "allow", "hypothesis": hypothesis},
        )
    )
    assert [job["state"] for job in installation.jobs(second)] == ["queued", "queued"]
    installation.wait_final(second)
    finished = [job for sweep in (first, second) for job in installation.jobs(sweep)]
    assert [job["state"] for job in finished] == ["succeeded"] * 4
    assert finished == sorted(finished, key=lambda job: job["started_at"]), "the first sweep's jobs went first"
    assert [job["out_of_distribution"] for job in finished] == [False, False, True, True]

    table = installation.run("results", second).stdout
    assert f"hypothesis: {hypothesis}" in table
    assert table.count("out of distribution") >= 2
    lengths = installation.json("results", second)
    assert "simulated" in str(lengths)


def test_resubmitting_a_name_makes_a_revision(installation: Installation) -> None:
    text = sweep_text("again")
    assert [installation.submit(text), installation.submit(text)] == ["again@1", "again@2"]
    assert installation.run("cancel", "again").stdout.startswith("1 jobs cancelled")
    assert [job["state"] for job in installation.jobs("again@1")] == ["queued"]
    assert [job["state"] for job in installation.jobs("again@2")] == ["cancelled"]
