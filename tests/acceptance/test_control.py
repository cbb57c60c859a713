"""Cancel, pause, resume, retry, release; servers that are away; files that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from installation import Installation, sweep_text

HOST = "sim-rtx6000"
LONG_POINT = ["{concurrency: 1, context: 4096, output: 128}"]


def states(installation: Installation, sweep: str) -> list[str]:
    return [job["state"] for job in installation.jobs(sweep)]


def test_cancel_ends_what_runs_and_what_waits(installation: Installation) -> None:
    cells = ["{block_size: 8, budget: 4}", "{block_size: 8, budget: 8}"]
    sweep = installation.submit(sweep_text("cancelled", cells=cells, points=LONG_POINT))
    installation.start_all(HOST)
    installation.wait_measuring(HOST)
    said = installation.run("cancel", sweep).stdout
    assert said == "1 jobs cancelled, 1 running ones asked to stop\n"
    jobs = installation.wait_final(sweep)
    assert [job["state"] for job in jobs] == ["cancelled", "cancelled"]
    assert installation.servers(HOST) == []
    (attempt,) = installation.show(jobs[0]["job_id"])["attempts"]
    assert (attempt["outcome"], attempt["failure"]) == ("cancelled", "CANCELLED")
    assert installation.run("retry", str(jobs[1]["job_id"])).stdout == "1 jobs queued again\n"
    installation.wait(sweep, lambda jobs: jobs[1]["state"] == "succeeded")
    assert states(installation, sweep) == ["cancelled", "succeeded"]


def test_a_paused_sweep_waits_and_another_goes_first(installation: Installation) -> None:
    paused = installation.submit(sweep_text("paused"))
    assert installation.run("pause", "paused").stdout == "paused@1 is paused\n"
    installation.start_all(HOST)
    other = installation.submit(sweep_text("other"))
    assert [job["state"] for job in installation.wait_final(other)] == ["succeeded"]
    assert states(installation, paused) == ["queued"]
    assert installation.run("resume", "paused").stdout == "paused@1 goes on\n"
    assert [job["state"] for job in installation.wait_final(paused)] == ["succeeded"]


def test_a_higher_priority_goes_first(installation: Installation) -> None:
    late = installation.submit(sweep_text("patient"))
    early = installation.submit(sweep_text("urgent"), "--priority", "5")
    installation.start_all(HOST)
    installation.wait_final(late)
    (first,), (second,) = installation.jobs(early), installation.jobs(late)
    assert first["finished_at"] < second["started_at"]


def test_submit_needs_no_broker_and_says_when_it_has_no_database(installation: Installation) -> None:
    path = installation.home / "sweep.yaml"
    path.write_text(sweep_text("offline"))
    nowhere = "redis://127.0.0.1:1/0"
    assert "queued offline@1: 1 jobs" in installation.run("submit", str(path), DDQUEUE_REDIS_URL=nowhere).stdout
    refused = installation.run(
        "submit", str(path), code=3, DDQUEUE_DATABASE_URL="postgresql://ddqueue:secret@127.0.0.1:1/ddqueue"
    )
    assert refused.stderr.count("\n") == 1
    assert "127.0.0.1" in refused.stderr
    assert "secret" not in refused.stderr


BAD = sorted((Path(__file__).parents[1] / "data" / "sweeps" / "bad").glob("*.yaml"))


@pytest.mark.parametrize("path", BAD[::8], ids=lambda path: path.stem)
def test_a_bad_file_stores_nothing(installation: Installation, path: Path) -> None:
    for command in ("plan", "submit"):
        refused = installation.run(command, str(path), code=2)
        assert refused.stdout == ""
        assert f"{path}" in refused.stderr
        assert "Traceback" not in refused.stderr
    assert installation.json("status")["sweeps"] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["submit", "missing.yaml"], "missing.yaml"),
        (["status", "nothing"], "nothing"),
        (["show", "99"], "no job 99"),
        (["cancel", "nothing"], "nothing"),
        (["release", "nowhere"], "nowhere"),
        (["worker", "--host", "nowhere"], "no host 'nowhere'"),
        (["results", "nothing@3"], "nothing"),
        (["no-such-command"], "No such command"),
        (["sql", "delete from jobs"], "read"),
    ],
)
def test_mistakes_get_one_message(installation: Installation, arguments: list[str], words: str) -> None:
    refused = installation.run(*arguments, code=None)
    assert refused.returncode in (1, 2)
    assert words in refused.stderr
    assert "Traceback" not in refused.stderr
