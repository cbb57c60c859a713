"""A job whose attempt died goes on where it was: valid points are not measured again."""

from __future__ import annotations

import os
import signal
import time

from installation import Installation, sweep_text

HOST = "sim-rtx6000"
POINTS = ["{concurrency: 1, context: 60, output: 8}", "{concurrency: 1, context: 4096, output: 128}"]


def test_a_resumed_job_skips_what_was_measured(installation: Installation) -> None:
    installation.set("DDQUEUE_LEASE_TTL_S", "2")
    sweep = installation.submit(sweep_text("resumed", points=POINTS))
    installation.start_all(HOST)
    (job,) = installation.jobs(sweep)
    deadline = time.monotonic() + installation.patience_s
    while not (attempts := installation.show(job["job_id"])["attempts"]) or not attempts[0]["measurements"]:
        assert time.monotonic() < deadline, installation.logs()
        time.sleep(0.05)
    os.kill(attempts[0]["runner_pid"], signal.SIGKILL)
    (final,) = installation.wait_final(sweep)
    assert final["state"] == "succeeded"
    first, second = installation.show(job["job_id"])["attempts"]
    assert (first["outcome"], second["outcome"]) == ("lost", "succeeded")
    carried = [row for row in second["measurements"] if row["carried_from"] == first["id"]]
    before = {(row["context_tokens"], row["repeat"]): row["output_throughput_tok_s"] for row in first["measurements"]}
    assert carried, "the first point's repeats were kept"
    for row in carried:
        assert before[row["context_tokens"], row["repeat"]] == row["output_throughput_tok_s"]
    keys = [(row["context_tokens"], row["repeat"]) for row in second["measurements"]]
    assert len(keys) == len(set(keys))
    assert {context for context, _ in keys} == {60, 4096}


def test_a_host_held_now_gives_its_job_back_and_goes_on_after_the_release(installation: Installation) -> None:
    sweep = installation.submit(sweep_text("held", points=POINTS))
    installation.start_all(HOST)
    installation.wait_measuring(HOST)
    (job,) = installation.jobs(sweep)
    said = installation.run("hold", HOST, "--for", "2h", "--reason", "production needs it", "--now").stdout
    assert said == f"{HOST} is held for 2h; job {job['job_id']} is asked to stop and waits again\n"
    installation.wait(sweep, lambda jobs: jobs[0]["state"] == "queued")
    assert installation.servers(HOST) == []
    assert installation.host(HOST)["hold_reason"] == "production needs it"
    assert "is held until" in installation.run("hosts").stdout
    assert installation.run("release", HOST).stdout == f"{HOST} takes work again\n"
    (final,) = installation.wait_final(sweep)
    assert (final["state"], final["tries"]) == ("succeeded", 1), "only the attempt that ended by itself used a try"
    outcomes = [attempt["outcome"] for attempt in installation.show(job["job_id"])["attempts"]]
    assert outcomes == ["cancelled", "succeeded"]


def test_a_drained_host_finishes_its_job_and_takes_no_more(installation: Installation) -> None:
    cells = ["{block_size: 8, budget: 4}", "{block_size: 8, budget: 8}"]
    sweep = installation.submit(sweep_text("drained", cells=cells, points=POINTS))
    installation.start_all(HOST)
    installation.wait_measuring(HOST)
    said = installation.run("drain", HOST, "--wait").stdout
    assert said.endswith(f"{HOST} is drained\n")
    assert [job["state"] for job in installation.jobs(sweep)] == ["succeeded", "queued"]
    installation.run("release", HOST)
    assert [job["state"] for job in installation.wait_final(sweep)] == ["succeeded", "succeeded"]


def test_a_sweep_runs_after_another(installation: Installation) -> None:
    first = installation.submit(sweep_text("first"))
    second = installation.submit(sweep_text("second"), "--after", "first", "--priority", "9")
    installation.start_all(HOST)
    installation.wait_final(second)
    (earlier,), (later,) = installation.jobs(first), installation.jobs(second)
    assert (earlier["state"], later["state"]) == ("succeeded", "succeeded")
    assert earlier["finished_at"] <= later["started_at"]


def test_mistakes_in_a_hold_are_one_line(installation: Installation) -> None:
    installation.submit(sweep_text("any"))
    for arguments, words in (
        ((HOST, "--for", "soon", "--reason", "x"), "write 30min, 2h or 1d"),
        ((HOST, "--reason", " "), "--reason is empty"),
        (("a100", "--reason", "x"), "knows no host 'a100'"),
    ):
        refused = installation.run("hold", *arguments, code=2)
        assert words in refused.stderr
        assert "Traceback" not in refused.stderr
