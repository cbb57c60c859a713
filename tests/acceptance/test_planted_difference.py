"""A difference that is planted in a simulated box is called one, and none is made of nothing.

How often a small difference is found, and how seldom one is made up, is shown without a clock in
tests/unit/test_planted_differences.py. Here real servers are measured on whatever machine runs the tests, so the
planted difference is far beyond what its load can do, and the limit for two equal cells is half of it.
"""

from __future__ import annotations

from typing import Any

from installation import Installation, sweep_text

NEVER_BY_LOAD = 1.5
"""Half of what is planted, which is twice the speed."""

PLAIN, TWIN, FASTER = "b8 t4 none", "b8 t4 none sim-speed=1", "b8 t4 none sim-speed=2"
CELLS = [
    "{block_size: 8, budget: 8, topk: 4}",
    "{block_size: 8, budget: 8, topk: 4, args.sim-speed: 1}",
    "{block_size: 8, budget: 8, topk: 4, args.sim-speed: 2}",
]


def compared(installation: Installation, sweep: str, a: str, b: str) -> dict[str, Any]:
    (pair,) = installation.json("compare", a, b, "--sweep", sweep)["pairs"]
    (point,) = pair["points"]
    return {**point["throughput"], "words": pair["words"]}


def test_a_planted_difference_is_found_and_equal_cells_are_not_told_apart(installation: Installation) -> None:
    text = sweep_text(
        "planted",
        cells=CELLS,
        points=["{concurrency: 1, context: 60, output: 64}"],
        more={"args": "{sim-startup-s: 0.3}"},
    )
    sweep = installation.submit(text + f"  visits: 2\n  control: {{cell: {PLAIN}, every: 2}}\n")
    installation.start_all("sim-rtx6000")
    jobs = installation.wait_final(sweep)
    assert [job["state"] for job in jobs] == ["succeeded"] * 7

    planted = compared(installation, sweep, PLAIN, FASTER)
    assert planted["beyond_noise"] is True
    assert planted["ratio"] > NEVER_BY_LOAD
    assert planted["words"].startswith(f"{FASTER} beats {PLAIN} at C=1 60 by ")
    # One in twenty equal pairs may be called different by a little, here too: a verdict on its own would be a timing.
    twin = compared(installation, sweep, PLAIN, TWIN)
    assert 1 / NEVER_BY_LOAD < twin["ratio"] < NEVER_BY_LOAD
    if not twin["beyond_noise"]:
        assert twin["words"].startswith(f"{TWIN} against {PLAIN}: at C=1 60 ")

    ranking = installation.json("results", sweep)["ranking"][0]
    assert ranking["places"][0]["name"] == FASTER
    assert ranking["use"] == "one user"
    listed = installation.run("results", sweep).stdout
    assert " visits of 3 configurations: " in listed
