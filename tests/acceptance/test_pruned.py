"""A sweep that gives up what is clearly slower everywhere, on a simulated box."""

from __future__ import annotations

from installation import Installation, sweep_text

HOST = "sim-rtx6000"
# A planted difference so large that no busy machine hides it.
CELLS = [f"{{block_size: 8, budget: 8, args.sim-speed: {speed}}}" for speed in (1, 4, 16)]
SLOW, MIDDLE, FAST = (f"b8 none sim-speed={speed}" for speed in (1, 4, 16))
POINTS = ["{concurrency: 1, context: [60, 256], output: 64}"]


def test_a_cell_that_is_slower_everywhere_is_given_up_and_a_person_may_insist(installation: Installation) -> None:
    text = sweep_text("prune", cells=CELLS, points=POINTS, more={"baseline": "true"})
    sweep = installation.submit(text + "  visits: 2\n  prune: dominated\n")
    assert [job["label"] for job in installation.jobs(sweep)][:4] == ["baseline", MIDDLE, SLOW, FAST]
    installation.start_all(HOST)
    jobs = installation.wait_final(sweep)
    states = {(job["label"], job["visit"]): job["state"] for job in jobs}
    assert states["baseline", 1] == states["baseline", 2] == "succeeded", "what others are compared with is kept"
    assert states[MIDDLE, 1] == states[FAST, 1] == states[FAST, 2] == "succeeded"
    assert states[SLOW, 1] == states[SLOW, 2] == "pruned"

    slow = next(job for job in jobs if (job["label"], job["visit"]) == (SLOW, 1))
    never = next(job for job in jobs if (job["label"], job["visit"]) == (SLOW, 2))
    assert slow["evidence"].startswith(f"{MIDDLE} (job ")
    assert "is faster everywhere: +" in slow["evidence"]
    assert "at C=1 60, +" in slow["evidence"]
    assert never["evidence"] == slow["evidence"]
    (attempt,) = installation.show(slow["job_id"])["attempts"]
    assert attempt["outcome"] == "pruned"
    assert sorted(one["context_tokens"] for one in attempt["measurements"]) == [60, 256], "one look at every point"
    shown = installation.show(never["job_id"])
    assert (shown["attempts"], [event["kind"] for event in shown["events"]]) == ([], ["pruned"])

    table = installation.run("results", sweep).stdout
    assert "given up: " in table
    assert "DOMINATED" in table
    rankings = installation.json("results", sweep)["ranking"]
    assert [one["places"][0]["name"] for one in rankings] == [FAST, FAST]
    assert [one["unranked"] for one in rankings] == [[SLOW], [SLOW]]

    installation.run("retry", str(slow["job_id"]))
    again = next(job for job in installation.wait_final(sweep) if job["job_id"] == slow["job_id"])
    assert again["state"] == "succeeded", "a person wanted it whole"


def test_without_leave_nothing_is_given_up(installation: Installation) -> None:
    sweep = installation.submit(sweep_text("whole", cells=CELLS[:2], points=POINTS))
    assert [job["label"] for job in installation.jobs(sweep)] == [SLOW, MIDDLE], "as in the file"
    installation.start_all(HOST)
    assert [job["state"] for job in installation.wait_final(sweep)] == ["succeeded"] * 2
